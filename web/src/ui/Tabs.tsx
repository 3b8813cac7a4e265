import { Link, useSearchParams } from 'react-router'

// The tab stands in the address, so that a copied link opens it.
// without: what of the address another tab has no use for.
export function Tabs({ names, without = [] }: { names: string[]; without?: string[] }) {
  const [params] = useSearchParams()
  const current = useTab(names)
  const to = (name: string) => {
    const next = new URLSearchParams(params)
    next.set('tab', name)
    if (name !== current)
      for (const key of [...next.keys()])
        if (without.includes(key) || /^(sel|find|open|shut|more|page(\..*)?)$/.test(key)) next.delete(key)
    return `?${next}`
  }
  return (
    <nav className="tabs" aria-label="Parts of this page">
      {names.map((name) => (
        <Link key={name} to={to(name)} aria-current={name === current ? 'page' : undefined}>
          {name === 'yaml' ? 'YAML' : name[0]?.toUpperCase() + name.slice(1)}
        </Link>
      ))}
    </nav>
  )
}

export function useTab(names: string[]): string {
  const [params] = useSearchParams()
  const asked = params.get('tab') ?? ''
  return names.includes(asked) ? asked : (names[0] ?? '')
}
