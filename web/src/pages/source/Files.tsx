import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { Link, useSearchParams } from 'react-router'
import type { Head } from '../../gen/fairlead/console/v1/resources_pb'
import { SourceService, type TreeEntry, TreeEntry_Kind } from '../../gen/fairlead/gitcache/v1/source_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { Copied } from '../../ui/Copied'
import { Export } from '../../ui/Export'
import { Empty, Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { bytesOf, plain, shortCommit } from '../../ui/text'
import { textOf } from './content'
import { Revision } from './Revision'

const size = 500
// Characters of a file that a page draws: the gitcache gives up to 1 MiB.
const mostShown = 1 << 20

const words: Record<number, string> = {
  [TreeEntry_Kind.FOLDER]: 'folder',
  [TreeEntry_Kind.FILE]: 'file',
  [TreeEntry_Kind.EXECUTABLE]: 'program',
  [TreeEntry_Kind.LINK]: 'link',
  [TreeEntry_Kind.SUBMODULE]: 'submodule',
}

// Folders and files of a revision. Which revision, folder and file are shown stands in the address.
export function Files({ source, heads }: { source: string; heads: Head[] }) {
  const [params] = useSearchParams()
  const revision = params.get('rev') ?? ''
  const path = params.get('path') ?? ''
  const file = params.get('file') ?? ''
  return (
    <>
      <div className="actions">
        <Revision refs={heads.map((h) => h.ref)} />
        <Link className="button" to={`?${new URLSearchParams({ ...place(revision, path), tab: 'commits' })}`}>
          {path ? 'Commits of this folder' : 'Commits'}
        </Link>
      </div>
      <Crumbs revision={revision} path={path} file={file} />
      {file ? (
        <File source={source} revision={revision} path={path ? `${path}/${file}` : file} />
      ) : (
        <Folder source={source} revision={revision} path={path} />
      )}
    </>
  )
}

const place = (revision: string, path: string, file = '') => ({
  tab: 'files',
  ...(revision ? { rev: revision } : {}),
  ...(path ? { path } : {}),
  ...(file ? { file } : {}),
})

function Crumbs({ revision, path, file }: { revision: string; path: string; file: string }) {
  const parts = path.split('/').filter(Boolean)
  return (
    <nav className="mono crumbs" aria-label="Folder">
      <Link to={`?${new URLSearchParams(place(revision, ''))}`}>root</Link>
      {parts.map((part, i) => {
        const to = parts.slice(0, i + 1).join('/')
        return (
          <span key={to}>
            {' / '}
            <Link to={`?${new URLSearchParams(place(revision, to))}`}>{plain(part, 255)}</Link>
          </span>
        )
      })}
      {file && ` / ${plain(file, 255)}`}
    </nav>
  )
}

function Folder({ source, revision, path }: { source: string; revision: string; path: string }) {
  const pages = usePages(`${source}\n${revision}\n${path}`)
  const list = useQuery(
    SourceService.method.listTree,
    { source, revision, path, pageSize: size, pageToken: pages.token },
    { refetchInterval: 30_000, placeholderData: keepPreviousData },
  )
  if (list.error && !list.data)
    return (
      <>
        <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />
        <Pager pages={pages} next="" size={size} total={undefined} />
      </>
    )
  if (!list.data) return <Waiting what="the folder" />
  const { entries, revision: at } = list.data
  return (
    <>
      {list.error && <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />}
      <p className="quiet">
        as of commit <span className="mono">{shortCommit(at?.commit)}</span> {plain(at?.subject ?? '', 200)}{' '}
        <Age of={at?.commitTime} />
      </p>
      <Export
        name={`${source}-files`}
        columns={['path', 'kind', 'size', 'object']}
        rows={entries.map((e) => ({
          path: path ? `${path}/${e.name}` : e.name,
          kind: words[e.kind] ?? '',
          size: isFile(e) ? String(e.size) : '',
          object: e.objectId,
        }))}
      />
      {entries.length === 0 && (
        <Empty pages={pages}>
          <p>Nothing is in it.</p>
        </Empty>
      )}
      {entries.length > 0 && (
        <div className={list.isPlaceholderData || list.error ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Kind</th>
                <th scope="col">Size</th>
              </tr>
            </thead>
            <tbody>
              {entries.map((e) => (
                <tr key={e.name}>
                  <td className="name">
                    <Entry of={e} revision={revision} path={path} />
                  </td>
                  <td>{words[e.kind] ?? ''}</td>
                  <td>{isFile(e) ? bytesOf(Number(e.size)) : ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager pages={pages} next={list.data.nextPageToken} size={size} total={undefined} />
    </>
  )
}

const isFile = (e: TreeEntry) =>
  e.kind === TreeEntry_Kind.FILE || e.kind === TreeEntry_Kind.EXECUTABLE || e.kind === TreeEntry_Kind.LINK

function Entry({ of, revision, path }: { of: TreeEntry; revision: string; path: string }) {
  const name = plain(of.name, 255)
  if (of.kind === TreeEntry_Kind.FOLDER) {
    const below = path ? `${path}/${of.name}` : of.name
    return <Link to={`?${new URLSearchParams(place(revision, below))}`}>{name}/</Link>
  }
  if (isFile(of)) return <Link to={`?${new URLSearchParams(place(revision, path, of.name))}`}>{name}</Link>
  return name
}

export function File({ source, revision, path }: { source: string; revision: string; path: string }) {
  const got = useQuery(SourceService.method.readFile, { source, revision, path }, { refetchInterval: 60_000 })
  if (got.error && !got.data)
    return <Failed failure={failureAt('gitcache', got.error)} again={() => void got.refetch()} />
  if (!got.data) return <Waiting what="the file" />
  const text = textOf(got.data.content)
  const { entry, revision: at } = got.data
  return (
    <section className="panel" aria-label="File">
      <div className="head">
        <span className="quiet">
          {bytesOf(got.data.content.length)} at <span className="mono">{shortCommit(at?.commit)}</span>
          {entry?.kind === TreeEntry_Kind.LINK && '; a link, which leads to'}
        </span>
        {text !== undefined && (
          <span className="end">
            <Copied text={text} />
          </span>
        )}
      </div>
      {text === undefined ? (
        <p>
          It is no text. <code>fairlead sources cat {source}</code> writes it into a file.
        </p>
      ) : (
        <pre>{plain(text, mostShown)}</pre>
      )}
    </section>
  )
}
