// Whether a document of the hub begins with another script than this tab did. What is no document of the pages, such as the answer of a proxy, says nothing.
export function isNewer(text: string, mine: string): boolean {
  const script = /<script[^>]*\ssrc="(\/assets\/[^"]+\.js)"/.exec(text)?.[1]
  return script !== undefined && script !== mine
}
