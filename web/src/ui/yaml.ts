type Value = unknown

// YAML of plain JSON values. Texts that YAML could read as anything else are quoted as JSON, which YAML understands.
export function toYaml(value: Value, indent = ''): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]\n'
    return value.map((v) => `${indent}- ${nested(v, `${indent}  `)}`).join('')
  }
  if (value !== null && typeof value === 'object') {
    const keys = Object.entries(value).filter(([, v]) => v !== undefined)
    if (keys.length === 0) return '{}\n'
    return keys
      .map(
        ([k, v]) =>
          `${indent}${scalar(k)}:${isBranch(v) ? `\n${toYaml(v, `${indent}  `)}` : ` ${inline(v, indent)}`}`,
      )
      .join('')
  }
  return `${scalar(value)}\n`
}

const isBranch = (v: Value) =>
  Array.isArray(v) ? v.length > 0 : v !== null && typeof v === 'object' && Object.keys(v).length > 0

function nested(v: Value, indent: string): string {
  return isBranch(v) ? toYaml(v, indent).trimStart() : inline(v, indent)
}

function inline(v: Value, indent: string): string {
  if (typeof v === 'string' && v.includes('\n') && /^[^\s]/.test(v) && !/[ ]\n/.test(v) && !odd.test(v)) {
    const keep = v.endsWith('\n') ? (v.endsWith('\n\n') ? '|+' : '|') : '|-'
    const lines = v.replace(/\n$/, '').split('\n')
    return `${keep}\n${lines.map((l) => (l ? `${indent}  ${l}` : '')).join('\n')}\n`
  }
  return isBranch(v) ? '' : toYaml(v)
}

// Characters that YAML takes for ends of lines, or that change how the text reads. They stand in quotes, as codes.
const odd = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

function quoted(v: string): string {
  return JSON.stringify(v).replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (c) => `\\U${(c.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`,
  )
}

// 1h30m, which YAML reads as nothing else.
const length = /^(?=\d)(\d+h)?(\d+m)?(\d+(\.\d+)?s)?$/

function scalar(v: Value): string {
  if (typeof v !== 'string') return JSON.stringify(v)
  const plain =
    /^[A-Za-z/][A-Za-z0-9_./@-]*$/.test(v) && !/^(true|false|yes|no|on|off|null|y|n|nan|inf)$/i.test(v)
  return plain || length.test(v) ? v : quoted(v)
}
