import { useSearchParams } from 'react-router'
import type { Head } from '../../gen/fairlead/console/v1/resources_pb'
import { chartOf, onlyChart, shownRef } from '../../state/sources'
import { plain } from '../../ui/text'
import { File } from './Files'

// The default values of a chart, as `fairlead get source NAME --values` shows them. Which chart and version stands in the address.
export function ChartValues({ source, heads }: { source: string; heads: Head[] }) {
  const [params, setParams] = useSearchParams()
  const refs = heads.map((h) => h.ref)
  const only = onlyChart(refs)
  const chart = params.get('chart') ?? only?.chart ?? ''
  const version = params.get('version') ?? (chart === only?.chart ? only.version : '')
  const charts = [...new Set(refs.flatMap((r) => chartOf(r)?.chart ?? []))]
  return (
    <>
      <form
        key={`${chart} ${version}`}
        className="actions"
        onSubmit={(e) => {
          e.preventDefault()
          const typed = new FormData(e.currentTarget)
          const next = new URLSearchParams({ tab: 'values' })
          for (const f of ['chart', 'version']) next.set(f, String(typed.get(f) ?? '').trim())
          setParams(next)
        }}
      >
        <input
          name="chart"
          data-search
          required
          defaultValue={chart}
          list="charts"
          placeholder="chart"
          aria-label="Chart"
          spellCheck={false}
          maxLength={255}
        />
        <datalist id="charts">
          {charts.slice(0, 200).map((c) => (
            <option key={c} value={c}>
              {plain(c, 200)}
            </option>
          ))}
        </datalist>
        <input
          name="version"
          defaultValue={version}
          placeholder="the highest version"
          aria-label="Version or range"
          spellCheck={false}
          maxLength={255}
        />
        <button type="submit">Show</button>
      </form>
      {chart ? (
        <File source={source} revision={`chart:${chart}@${version}`} path="values.yaml" />
      ) : (
        <p>
          {refs.length === 0
            ? 'No service names a chart of it: type the name of one.'
            : `Services name ${plain(refs.map(shownRef).sort().join(', '), 600)}: choose one.`}
        </p>
      )}
    </>
  )
}
