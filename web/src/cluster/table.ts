import { Code, ConnectError } from '@connectrpc/connect'
import { type Ask, json, linesOf } from './request'

export type Column = { name: string; type: string; priority: number; description: string }

export type Metadata = {
  name?: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: { kind: string; name: string; controller?: boolean }[]
}

export type Row = { key: string; metadata: Metadata; cells: unknown[] }

type Table = {
  columnDefinitions?: Column[]
  rows?: { cells: unknown[]; object?: { metadata?: Metadata } }[]
  metadata?: { resourceVersion?: string; continue?: string; remainingItemCount?: number }
}

const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'

// Rows of a page. A tab holds two pages at most: what a watch adds beyond is counted.
export const pageSize = 500
const mostRows = 1000

export type Shown = {
  columns: Column[]
  rows: Row[]
  next: string // the token of the next page
  remaining: number | undefined // how many objects come after this page, about
  more: number // rows that a watch brought beyond the bound
  asOf: number
  live: boolean
  nextTry: number
  failure: unknown
}

const empty: Shown = {
  columns: [],
  rows: [],
  next: '',
  remaining: undefined,
  more: 0,
  asOf: 0,
  live: false,
  nextTry: 0,
  failure: undefined,
}

// A page of a list, kept up to date by a watch while somebody looks at it. Rows keep their place: a new one comes at the end, as in the order of names
// it would push others from under the pointer; the next reading sorts it in.
export class Watched {
  private shown = empty
  private readonly listeners = new Set<() => void>()
  private ending: AbortController | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private waits = 0
  private dirty = false

  // objects: Metadata, or None where not even annotations may come.
  constructor(
    private readonly ask: Ask,
    private readonly path: string,
    private readonly query: Record<string, string>,
    private readonly objects: 'Metadata' | 'None',
    private readonly watches: boolean,
    private readonly pause = (ms: number) => ms * (0.5 + Math.random() / 2),
  ) {}

  snapshot = () => this.shown

  subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    if (this.listeners.size === 1) this.begin()
    return () => {
      this.listeners.delete(listener)
      if (this.listeners.size === 0) this.end()
    }
  }

  again = () => {
    this.end()
    this.waits = 0
    if (this.listeners.size > 0) this.begin()
  }

  // A tab that nobody sees follows nothing.
  rest(hidden: boolean) {
    if (hidden) {
      this.end()
      this.tell({ live: false })
    } else if (this.listeners.size > 0 && this.ending?.signal.aborted) this.begin()
  }

  private begin() {
    const ending = new AbortController()
    this.ending = ending
    void this.run(ending.signal).catch((failure) => {
      if (ending.signal.aborted) return
      this.tell({ live: false, failure })
      // What a person may not see is not asked for again and again.
      const code = ConnectError.from(failure).code
      if (code === Code.PermissionDenied || code === Code.NotFound || code === Code.FailedPrecondition) return
      this.later()
    })
  }

  private later() {
    const wait = this.pause(Math.min(10_000, 1000 * 2 ** this.waits++))
    this.tell({ nextTry: Date.now() + wait })
    this.timer = setTimeout(() => this.begin(), wait)
  }

  private end() {
    this.ending?.abort()
    clearTimeout(this.timer)
  }

  private tell(change: Partial<Shown>) {
    this.shown = { ...this.shown, ...change }
    for (const l of this.listeners) l()
  }

  private async run(signal: AbortSignal) {
    const table = await json<Table>(
      this.ask(
        `${this.path}?${new URLSearchParams({ ...this.query, includeObject: this.objects, limit: String(pageSize) })}`,
        {
          signal,
          headers: { Accept: accept },
        },
      ),
    )
    this.waits = 0
    this.tell({
      columns: table.columnDefinitions ?? [],
      rows: rowsOf(table),
      next: table.metadata?.continue ?? '',
      remaining: table.metadata?.remainingItemCount,
      more: 0,
      asOf: Date.now(),
      failure: undefined,
      nextTry: 0,
    })
    let version = table.metadata?.resourceVersion ?? ''
    // A later page of a list is of the moment of the first: there is nothing to follow.
    if (!this.watches || this.query.continue || version === '') return this.later()
    for (;;) {
      version = await this.follow(version, signal)
    }
  }

  // Follows what changes until the stream ends, and returns from where to go on.
  private async follow(version: string, signal: AbortSignal): Promise<string> {
    const query = {
      ...this.query,
      includeObject: this.objects,
      watch: '1',
      allowWatchBookmarks: 'true',
      resourceVersion: version,
      timeoutSeconds: '240',
    }
    const answer = await this.ask(`${this.path}?${new URLSearchParams(query)}`, {
      signal,
      headers: { Accept: accept },
    })
    this.tell({ live: true, asOf: Date.now(), failure: undefined })
    if (!answer.body) throw new ConnectError('The watch has no body.', Code.Unavailable)
    const began = Date.now()
    for await (const line of linesOf(answer.body)) {
      if (line === '') continue
      const event = JSON.parse(line) as { type: string; object: Table & { message?: string; code?: number } }
      if (event.type === 'ERROR') {
        if (event.object.code === 410) throw new ConnectError('The watch is too old.', Code.Unavailable)
        throw new ConnectError(event.object.message ?? 'The watch failed.', Code.Unavailable)
      }
      const rows = rowsOf(event.object)
      version = rows.at(-1)?.metadata.resourceVersion ?? event.object.metadata?.resourceVersion ?? version
      if (event.type === 'BOOKMARK') this.tell({ asOf: Date.now() })
      else this.take(event.type === 'DELETED', rows)
    }
    // A cluster that ends each watch at once is not asked a thousand times a second.
    if (Date.now() - began < 1000) throw new ConnectError('The watch was cut.', Code.Unavailable)
    return version
  }

  // Takes what came, and draws four times a second at most.
  private take(gone: boolean, changed: Row[]) {
    const rows = this.dirty ? this.shown.rows : [...this.shown.rows]
    let more = this.shown.more
    for (const row of changed) {
      const i = rows.findIndex((r) => r.key === row.key)
      if (gone) {
        if (i >= 0) rows.splice(i, 1)
        else if (more > 0) more--
      } else if (i >= 0) rows[i] = row
      else if (rows.length < mostRows && !this.shown.next) rows.push(row)
      else more++
    }
    this.shown = { ...this.shown, rows, more, asOf: Date.now() }
    if (this.dirty) return
    this.dirty = true
    setTimeout(() => {
      this.dirty = false
      this.tell({ rows: [...this.shown.rows] })
    }, 250)
  }
}

export function rowsOf(table: Table): Row[] {
  return (table.rows ?? []).map((r) => {
    const metadata = r.object?.metadata ?? {}
    const name = metadata.name ?? String(r.cells[0] ?? '')
    return {
      key: metadata.uid ?? `${metadata.namespace ?? ''}/${name}`,
      metadata: { ...metadata, name },
      cells: r.cells,
    }
  })
}
