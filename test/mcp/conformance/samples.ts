/** A picture of one red pixel, as PNG in base64. */
export const redPixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/** A sound without samples: the 44 bytes of a WAV header (mono, 8 kHz, 8 bit), in base64. */
export const silence = Buffer.concat([
  Buffer.from("RIFF"),
  littleEndian(36, 4),
  Buffer.from("WAVEfmt "),
  ...[
    [16, 4],
    [1, 2],
    [1, 2],
    [8000, 4],
    [8000, 4],
    [1, 2],
    [8, 2],
  ].map(([value = 0, bytes = 0]) => littleEndian(value, bytes)),
  Buffer.from("data"),
  littleEndian(0, 4),
]).toString("base64");

function littleEndian(value: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntLE(value, 0, bytes);
  return buffer;
}
