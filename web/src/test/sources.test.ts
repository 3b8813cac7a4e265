import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { ServiceSpecSchema, SourceSchema, SourceSpecSchema } from '../gen/fairlead/console/v1/resources_pb'
import { Phase, ServiceReportSchema } from '../gen/fairlead/delivery/v1/delivery_pb'
import { untroubled } from '../pages/service/grouped'
import { chartOf, followedBy, onlyChart, shownRef, sourceOf, urlOf, wordOf } from '../state/sources'

test('a source is shown by its url, whatever its kind', () => {
  expect(urlOf(create(SourceSpecSchema, { git: { url: 'https://git.example.com/x' } }))).toBe(
    'https://git.example.com/x',
  )
  expect(urlOf(create(SourceSpecSchema, { helm: { url: 'https://charts.example.com' } }))).toBe(
    'https://charts.example.com',
  )
  expect(urlOf(create(SourceSpecSchema, { oci: { url: 'oci://registry.example.com/shop' } }))).toBe(
    'oci://registry.example.com/shop',
  )
  const bucket = { endpoint: 's3.example.com', bucketName: 'shop', prefix: 'deploy' }
  expect(urlOf(create(SourceSpecSchema, { bucket }))).toBe('https://s3.example.com/shop/deploy')
  expect(urlOf(create(SourceSpecSchema, { bucket: { ...bucket, prefix: '', insecure: true } }))).toBe(
    'http://s3.example.com/shop',
  )
  expect(urlOf(undefined)).toBe('')
})

test('a service is shown with its ref, or with its chart and version', () => {
  expect(followedBy(create(ServiceSpecSchema, { ref: 'main' }))).toBe('main')
  expect(followedBy(create(ServiceSpecSchema, { chart: 'web', version: '^1' }))).toBe('web ^1')
  expect(followedBy(create(ServiceSpecSchema, { chart: 'web' }))).toBe('web')
  expect(followedBy(undefined)).toBe('')
})

test('a service with several sources is shown with each of them', () => {
  const spec = create(ServiceSpecSchema, {
    sources: [
      { name: 'chart', source: 'charts', chart: 'web', version: '^1' },
      { name: 'values', source: 'shop' },
    ],
  })
  expect(sourceOf(spec)).toBe('chart=charts, values=shop')
  expect(followedBy(spec)).toBe('chart=web ^1, values=default branch')
  expect(sourceOf(create(ServiceSpecSchema, { source: 'shop' }))).toBe('shop')
  expect(sourceOf(undefined)).toBe('')
  expect(shownRef(`combination:${'0'.repeat(64)}`)).toBe('with other sources')
})

test('the ref of a chart is shown as people write it', () => {
  expect(shownRef('chart:web@>=1.0.0 <2')).toBe('web >=1.0.0 <2')
  expect(shownRef('refs/tags/v1')).toBe('refs/tags/v1')
  expect(shownRef(`tag:1.4.2@sha256:${'0'.repeat(64)}`)).toBe('1.4.2 (sha256:000000000000)')
})

test('the values that are shown are those of the one chart that services name', () => {
  expect(chartOf('chart:redis@^19.1')).toEqual({ chart: 'redis', version: '^19.1' })
  expect(chartOf('chart:web@')).toEqual({ chart: 'web', version: '' })
  expect(chartOf('refs/tags/v1')).toBeUndefined()
  expect(onlyChart(['chart:redis@^19.1', 'combination:00'])).toEqual({ chart: 'redis', version: '^19.1' })
  expect(onlyChart(['chart:redis@^19.1', 'chart:web@1.0.0'])).toBeUndefined()
  expect(onlyChart([])).toBeUndefined()
})

test('a ref that a host does not have leaves its source ready', () => {
  const heads = [{ ref: 'main' }]
  const missing = { message: 'no ref x', refs: ['x'], refProblems: [{ ref: 'x', missing: true }] }
  const ofSource = (status: object) => wordOf(create(SourceSchema, { status }))
  expect(ofSource({ heads, problem: missing })).toBe('ready')
  expect(ofSource({ heads, problem: { message: 'no answer' } })).toBe('failing')
  const other = { ref: 'y', missing: false }
  expect(ofSource({ heads, problem: { ...missing, refProblems: [...missing.refProblems, other] } })).toBe(
    'failing',
  )
  expect(ofSource({ heads })).toBe('ready')
  expect(ofSource({})).toBe('pending')
  expect(wordOf(undefined)).toBe('pending')
})

test('objects are said to be healthy only where their cluster says so', () => {
  const said = (phase: Phase, objectsTotal: number) =>
    untroubled(create(ServiceReportSchema, { phase, objectsTotal }))
  expect(said(Phase.HEALTHY, 3)).toBe('3 objects, healthy and as Git says.')
  expect(said(Phase.FAILED, 0)).toBe('Nothing of it is applied yet.')
  expect(said(Phase.FAILED, 3)).not.toContain('healthy')
})
