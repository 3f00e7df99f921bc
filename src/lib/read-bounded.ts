/** The bytes of `body`. @throws what `tooMany` makes, as soon as there are more than `maxBytes` */
export const readBounded = async (
  body: ReadableStream<Uint8Array> | null,
  maxBytes: number,
  tooMany: () => Error,
): Promise<Uint8Array<ArrayBuffer>> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooMany();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};
