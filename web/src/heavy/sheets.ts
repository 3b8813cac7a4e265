// Libraries write style elements and style attributes, which the policy of the pages forbids. The same rules as sheets and properties of the document's
// model are allowed, so such a library gets elements that make these.
export function made(create: (name: string) => HTMLElement, name: string): HTMLElement {
  if (name !== 'style') {
    const element = create(name)
    const setAttribute = element.setAttribute.bind(element)
    element.setAttribute = (key, value) => {
      if (key === 'style') element.style.cssText = value
      else setAttribute(key, value)
    }
    return element
  }
  const element = create('template') // shows nothing
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet)
    Element.prototype.remove.call(element)
  }
  return element
}

// Runs what makes elements of the window's own document.
export function withSheets<T>(run: () => T): T {
  const create = document.createElement.bind(document)
  document.createElement = ((name: string) => made(create, name)) as typeof document.createElement
  try {
    return run()
  } finally {
    delete (document as { createElement?: unknown }).createElement // the prototype's is there again
  }
}
