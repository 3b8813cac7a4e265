import { expect, test } from 'vitest'
import { toYaml } from '../pages/service/yaml'
import { plain } from '../ui/text'

test('foreign text cannot turn, hide or forge what stands around it', () => {
  expect(plain('a\u202Eb\u0000c\u001b[31md\u2066')).toBe('a\\u{202e}b\\u{0}c\\u{1b}[31md\\u{2066}')
  expect(plain('two\nlines\tand a tab')).toBe('two\nlines\tand a tab')
})
test('a megabyte of text is cut, and the cut is said', () => {
  const text = plain('x'.repeat(1 << 20))
  expect(text.length).toBeLessThan(5000)
  expect(text).toContain('more characters')
})

test('YAML that a person copies means the same', () => {
  const value = {
    kind: 'Service',
    spec: {
      source: 'shop',
      ref: '1.10',
      on: true,
      empty: {},
      none: [],
      list: ['a', { b: 'c: d', e: 2 }, 'true', 'no', '# x', '- y', ''],
      values: 'image:\n  tag: v1\n',
      odd: 'a\n\n',
    },
  }
  expect(toYaml(value)).toBe(
    [
      'kind: Service',
      'spec:',
      '  source: shop',
      '  ref: "1.10"',
      '  "on": true',
      '  empty: {}',
      '  none: []',
      '  list:',
      '    - a',
      '    - b: "c: d"',
      '      e: 2',
      '    - "true"',
      '    - "no"',
      '    - "# x"',
      '    - "- y"',
      '    - ""',
      '  values: |',
      '    image:',
      '      tag: v1',
      '  odd: |+',
      '    a',
      '',
      '',
    ].join('\n'),
  )
})

test('no value breaks out of the YAML that a person copies', () => {
  const text = toYaml({ spec: { config: 'a\nb\u2028  catalog: true', next: 'a\u0085b', turned: 'x\u202ey' } })
  expect(text).toBe(
    'spec:\n  config: "a\\nb\\U00002028  catalog: true"\n  next: "a\\U00000085b"\n  turned: "x\\U0000202ey"\n',
  )
})
