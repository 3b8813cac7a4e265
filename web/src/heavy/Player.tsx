import { useEffect, useMemo, useRef, useState } from 'react'
import { type Cast, playTimes } from '../cluster/cast'
import { terminalIn } from './terminal'

const speeds = [1, 2, 4, 8, 16]
const pauses: [string, number][] = [
  ['as they were', Number.POSITIVE_INFINITY],
  ['2 s at most', 2000],
]

// Plays a recording in a terminal that takes no input.
export default function Player({ cast }: { cast: Cast }) {
  const box = useRef<HTMLDivElement>(null)
  const show = useRef<(at: number) => void>(undefined)
  const [pause, setPause] = useState(1)
  const [speed, setSpeed] = useState(1)
  const [playing, setPlaying] = useState(true)
  const [at, setAt] = useState(0)
  const times = useMemo(() => playTimes(cast, pauses[pause]?.[1] ?? 0), [cast, pause])
  const end = times.at(-1) ?? 0
  useEffect(() => {
    if (!box.current) return
    const terminal = terminalIn(box.current, { cols: cast.cols, rows: cast.rows, readOnly: true })
    let shown = 0 // events that the terminal has
    show.current = (at) => {
      if (shown > 0 && at < (times[shown - 1] ?? 0)) {
        terminal.reset()
        terminal.resize(cast.cols, cast.rows)
        shown = 0
      }
      let text = ''
      for (; shown < times.length && (times[shown] ?? 0) <= at; shown++) {
        const event = cast.events[shown]
        if (event?.text !== undefined) text += event.text
        else if (event?.cols && event.rows) {
          terminal.write(text)
          text = ''
          terminal.resize(event.cols, event.rows)
        }
      }
      if (text) terminal.write(text)
    }
    return () => {
      show.current = undefined
      terminal.dispose()
    }
  }, [cast, times])
  // biome-ignore lint/correctness/useExhaustiveDependencies: other times make another terminal, which shows nothing yet
  useEffect(() => {
    show.current?.(at)
    if (at >= end) setPlaying(false)
  }, [at, end, times])
  useEffect(() => {
    if (!playing) return
    let before = performance.now()
    const timer = setInterval(() => {
      const now = performance.now()
      const passed = (now - before) * speed
      before = now
      setAt((at) => Math.min(end, at + passed))
    }, 50)
    return () => clearInterval(timer)
  }, [playing, speed, end])
  return (
    <>
      <div className="actions">
        <button
          type="button"
          onClick={() => {
            if (at >= end) setAt(0)
            setPlaying(!playing)
          }}
        >
          {playing ? 'Pause' : at >= end ? 'Play again' : 'Play'}
        </button>
        <input
          type="range"
          aria-label="Place in the recording, in seconds"
          min={0}
          max={Math.max(1, Math.round(end / 1000))}
          step={1}
          value={Math.round(at / 1000)}
          onChange={(e) => setAt(Number(e.target.value) * 1000)}
        />
        <span role="timer">
          {seconds(at)} of {seconds(end)}
        </span>
        <label>
          Speed{' '}
          <select value={speed} onChange={(e) => setSpeed(Number(e.target.value))}>
            {speeds.map((s) => (
              <option key={s} value={s}>
                {s}x
              </option>
            ))}
          </select>
        </label>
        <label>
          Pauses{' '}
          <select
            value={pause}
            onChange={(e) => {
              setAt(0)
              setPause(Number(e.target.value))
            }}
          >
            {pauses.map(([words], i) => (
              <option key={words} value={i}>
                {words}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div ref={box} className="tty replay" />
    </>
  )
}

const seconds = (ms: number) => {
  const s = Math.round(ms / 1000)
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
}
