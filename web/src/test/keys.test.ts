import { expect, test } from 'vitest'
import proto from '../../../proto/fairlead/console/v1/sync_service.proto?raw'
import { carried, neighbourOf } from '../app/neighbours'
import { isTaken } from '../app/taken'
import { mostAtOnce, syncedAs } from '../pages/service/grouped'

test('the neighbours of a thing are those of the list that a person came from', () => {
  const list = ['/service/a', '/service/b', '/service/c']
  expect(neighbourOf(list, '/service/a', 1)).toBe('/service/b')
  expect(neighbourOf(list, '/service/c', -1)).toBe('/service/b')
  expect(neighbourOf(list, '/service/c', 1)).toBeUndefined()
  expect(neighbourOf(list, '/service/a', -1)).toBeUndefined()
  expect(neighbourOf(list, '/cluster/edge-1', 1)).toBeUndefined()
  expect(neighbourOf([], '/service/a', 1)).toBeUndefined()
})

test('the tab alone goes along to the neighbour', () => {
  expect(carried('?tab=logs&pod=web-0&grep=panic')).toBe('?tab=logs')
  expect(carried('?tab=files&rev=abc&path=charts%2Fa&file=b')).toBe('?tab=files')
  expect(carried('?pod=web-0')).toBe('')
  expect(carried('')).toBe('')
})

test('no key counts while a dialog is open or a person types', () => {
  const press = { ctrlKey: false, metaKey: false, altKey: false }
  const inside = (...around: string[]) => ({
    closest: (list: string) => (list.split(', ').some((one) => around.includes(one)) ? {} : null),
  })
  const page = (...open: string[]) => ({
    querySelector: (wanted: string) => (open.includes(wanted) ? ({} as Element) : null),
  })
  expect(isTaken({ ...press, target: inside('main') }, page())).toBe(true)
  expect(isTaken({ ...press, target: inside('body') }, page('dialog[open]'))).toBe(false)
  expect(isTaken({ ...press, target: inside('dialog') }, page())).toBe(false)
  expect(isTaken({ ...press, target: inside('textarea') }, page())).toBe(false)
  expect(isTaken({ ...press, target: inside('input:not([type="checkbox"])') }, page())).toBe(false)
  expect(isTaken({ ...press, ctrlKey: true, target: inside('main') }, page())).toBe(false)
})

test('a sync names objects as the command does', () => {
  expect(syncedAs({ kind: 'Deployment', namespace: 'shop', name: 'web' })).toBe('Deployment/shop/web')
  expect(syncedAs({ kind: 'Namespace', namespace: '', name: 'shop' })).toBe('Namespace/shop')
})

test('as many objects are synced at once as the hub takes', () => {
  const rule = /message RequestSyncRequest \{[^}]*repeated string only = \d+ [^}]*?max_items: (\d+)/.exec(
    proto,
  )
  expect(rule?.[1]).toBe(String(mostAtOnce))
})
