/**
 * What a tool call or result carries: the text in its fence. A text without one is its own body.
 * The fence may be longer than usual when the body has fences of its own.
 */
export const unfenced = (content: string): string => {
  const text = content.replace(/^\n+/, "");
  const fence = /^(`{3,}|~{3,})[^\n]*\n/.exec(text);
  if (fence === null) return text;
  const body = text.slice(fence[0].length).trimEnd();
  return body.endsWith(fence[1] ?? "") ? body.slice(0, -(fence[1] ?? "").length).replace(/\n$/, "") : body;
};
