import { type Row, save, toCsv, toYamlRows } from './exported'

// Saves the rows that are shown.
export function Export({ name, columns, rows }: { name: string; columns: string[]; rows: Row[] }) {
  return (
    <span className="actions">
      <button
        type="button"
        disabled={rows.length === 0}
        onClick={() => save(`${name}.csv`, toCsv(columns, rows), 'text/csv')}
      >
        CSV
      </button>
      <button
        type="button"
        disabled={rows.length === 0}
        onClick={() => save(`${name}.yaml`, toYamlRows(rows), 'application/yaml')}
      >
        YAML
      </button>
    </span>
  )
}
