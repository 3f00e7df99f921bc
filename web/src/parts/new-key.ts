/** An id that nobody else has. Not `randomUUID`, which browsers have on HTTPS and on loopback only. */
export const newKey = (): string =>
  Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");
