import { createRoutesFromElements } from 'react-router'
import { afterAll, expect, test, vi } from 'vitest'
import { keyed, Named } from '../app/Named'

afterAll(() => vi.unstubAllGlobals())

test('each page of a named thing begins anew with another name', async () => {
  // Modules of pages look at the address of the page when they are loaded.
  vi.stubGlobal('window', { location: new URL('https://hub.example') })
  vi.stubGlobal('document', { addEventListener: () => {}, visibilityState: 'visible' })
  const { routes } = await import('../app/routes')
  const named = createRoutesFromElements(routes).filter((r) => r.path?.includes(':name'))
  expect(named.map((r) => r.path)).toContain('/service/:name')
  for (const r of named)
    expect([r.path, (r.element as React.ReactElement | undefined)?.type]).toEqual([r.path, Named])
  expect(keyed('a', null).key).not.toBe(keyed('b', null).key)
})
