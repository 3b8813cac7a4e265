// The text of a file; nothing, if it is none.
export function textOf(content: Uint8Array): string | undefined {
  if (content.subarray(0, 8192).includes(0)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch {
    return undefined
  }
}
