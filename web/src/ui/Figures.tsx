import { type Figures, figureColumns } from '../state/views'

// The figures of a cluster, or the sums of several, as cells of a row.
export function FigureCells({ of }: { of: Figures }) {
  return figureColumns.map((c) => (
    <td key={c.order} className={c.bad(of) ? 'number bad' : 'number'} data-label={c.title}>
      {c.show(of)}
    </td>
  ))
}
