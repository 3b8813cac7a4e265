import { expect, test } from 'vitest'
import { neighbourOf } from '../app/neighbours'
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

test('a sync names objects as the command does', () => {
  expect(syncedAs({ kind: 'Deployment', namespace: 'shop', name: 'web' })).toBe('Deployment/shop/web')
  expect(syncedAs({ kind: 'Namespace', namespace: '', name: 'shop' })).toBe('Namespace/shop')
  expect(mostAtOnce).toBe(64)
})
