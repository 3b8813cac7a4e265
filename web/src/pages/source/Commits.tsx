import { useQuery } from '@connectrpc/connect-query'
import { keepPreviousData } from '@tanstack/react-query'
import { Link, useSearchParams } from 'react-router'
import type { Head } from '../../gen/fairlead/console/v1/resources_pb'
import { SourceService } from '../../gen/fairlead/gitcache/v1/source_pb'
import { failureAt } from '../../hub/errors'
import { Age } from '../../live/Age'
import { Export } from '../../ui/Export'
import { Pager, usePages } from '../../ui/Pager'
import { Failed, Waiting } from '../../ui/Panel'
import { isoOf, plain, shortCommit } from '../../ui/text'
import { Revision } from './Revision'

const size = 50

// The history of a revision, the newest first.
export function Commits({ source, heads }: { source: string; heads: Head[] }) {
  const [params] = useSearchParams()
  const revision = params.get('rev') ?? ''
  const path = params.get('path') ?? ''
  const pages = usePages(`${source}\n${revision}\n${path}`)
  const list = useQuery(
    SourceService.method.listCommits,
    { source, revision, path, pageSize: size, pageToken: pages.token },
    { refetchInterval: 30_000, placeholderData: keepPreviousData },
  )
  const commits = list.data?.commits ?? []
  const at = new Map<string, string[]>()
  for (const h of heads) {
    const commit = h.revision?.commit ?? ''
    at.set(commit, [...(at.get(commit) ?? []), h.ref])
  }
  const rows = commits.map((c) => ({
    commit: c.commit,
    time: isoOf(c.commitTime),
    author: c.author,
    subject: c.subject,
  }))
  return (
    <>
      <div className="actions">
        <Revision refs={heads.map((h) => h.ref)} />
        {path && (
          <span>
            only what changes <code>{plain(path, 300)}</code>
          </span>
        )}
        <Export name={`${source}-commits`} columns={['commit', 'time', 'author', 'subject']} rows={rows} />
      </div>
      {list.error && <Failed failure={failureAt('gitcache', list.error)} again={() => void list.refetch()} />}
      {list.isPending && <Waiting what="commits" />}
      {list.data && commits.length === 0 && (
        <p>
          {list.data.nextPageToken
            ? 'None of the commits of this page changes the folder.'
            : 'No commit fits.'}
        </p>
      )}
      {commits.length > 0 && (
        <div className={list.isPlaceholderData || list.error ? 'table-wrap stale' : 'table-wrap'}>
          <table>
            <thead>
              <tr>
                {['Commit', 'Subject', 'Author', 'When', 'Files', 'Refs that point to it'].map((t) => (
                  <th scope="col" key={t}>
                    {t}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {commits.map((c) => (
                <tr key={c.commit}>
                  <td className="name mono">{shortCommit(c.commit)}</td>
                  <td>{plain(c.subject, 300)}</td>
                  <td>{plain(c.author, 100)}</td>
                  <td>
                    <Age of={c.commitTime} />
                  </td>
                  <td>
                    <Link to={`?${new URLSearchParams({ tab: 'files', rev: c.commit })}`}>Files</Link>
                  </td>
                  <td>{plain(at.get(c.commit)?.join(', ') ?? '', 300)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Pager pages={pages} next={list.data?.nextPageToken ?? ''} size={size} total={undefined} />
    </>
  )
}
