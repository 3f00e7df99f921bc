import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { readAttached } from "./body.ts";

const boundary = "xxxxxxxxxxxxxxxxxxxxxxxx";
const end = `\r\n--${boundary}--\r\n`;
const disposition = "Content-Disposition: form-data; name=";
const most = 26 * 1024 * 1024 - 1000;

/** So much of a text that the body is as large as it may be. */
const filled = (unit: string): string => unit.repeat(Math.floor(most / unit.length));

const posted = (body: string, of = boundary): Request =>
  new Request("http://localhost/jobs", {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${of}` },
    body,
  });

const read = (body: string, of?: string) => () => readAttached(posted(body, of)).catch(() => null);

/** The cost of a plain body of the same size on this machine now, ms. Noise only adds: the least of three counts. */
const plain = `--${boundary}\r\n${disposition}"job"\r\n\r\n${filled("a")}${end}`;
const plainMs = Math.min(
  await longestBlock(read(plain)),
  await longestBlock(read(plain)),
  await longestBlock(read(plain)),
);
const noTime = 10 * plainMs;

test.each([
  ["short lines", `--${boundary}\r\n${disposition}"job"\r\n${filled("a: b\r\n")}\r\n{}${end}`],
  ["one long line", `--${boundary}\r\n${disposition}"job"\r\na: ${filled("b")}\r\n\r\n{}${end}`],
  ["a long name", `--${boundary}\r\n${disposition}"${filled("%22")}"\r\n\r\n{}${end}`],
  [
    "a long file name",
    `--${boundary}\r\n${disposition}"attach"; filename="${filled("%0A")}"\r\n\r\n{}${end}`,
  ],
  ["attributes", `--${boundary}\r\n${disposition}"job"${filled('; a="b"')}\r\n\r\n{}${end}`],
  ["no end", `--${boundary}\r\n${disposition}"job"\r\n${filled("a")}`],
])("a part whose header has %s is refused in no time", async (_what, body) => {
  const request = posted(body);
  const refused = async (): Promise<void> => {
    await expect(readAttached(request)).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining("a header of more than 16384 bytes") as string,
    });
  };
  expect(await longestBlock(refused)).toBeLessThan(noTime);
});

test("a second part is looked at as well, and a boundary of dashes among dashes", async () => {
  const first = `--${boundary}\r\n${disposition}"job"\r\n\r\n{}\r\n`;
  const second = `--${boundary}\r\n${disposition}"attach"${'; a="b"'.repeat(3000)}\r\n\r\nx${end}`;
  await expect(readAttached(posted(first + second))).rejects.toThrow("a header of more than 16384 bytes");
  const dashes = "-".repeat(60);
  const among = `--${dashes}\r\n${disposition}"job"\r\n\r\n${filled("-")}\r\n--${dashes}--\r\n`;
  expect(await longestBlock(read(among, dashes))).toBeLessThan(noTime);
});

test("a header of 16 KiB is taken, and a file with empty lines and the boundary's beginning in it", async () => {
  const name = `${disposition}"attach"; filename="a"`;
  const header = `${name}\r\nX: ${"y".repeat(16_384 - name.length - 5)}`;
  const content = `\r\n\r\n--${boundary.slice(1)}\r\n`.repeat(1000);
  const body = `--${boundary}\r\n${disposition}"job"\r\n\r\n{}\r\n--${boundary}\r\n${header}\r\n\r\n${content}${end}`;
  expect(await readAttached(posted(body))).toEqual({
    options: { files: [{ name: "a", content, encoding: "utf-8" }] },
  });
  const longer = body.replace("X: y", "X: yy");
  await expect(readAttached(posted(longer))).rejects.toThrow("a header of more than 16384 bytes");
});

test.each(["xboundary=another; boundary=", 'x="; boundary=another"; boundary='])(
  "parts are counted by the boundary by which they are parsed: %s",
  async (before) => {
    const body = `--${boundary}\r\n${disposition}"job"\r\n${"a: b\r\n".repeat(5000)}\r\n{}${end}`;
    const type = `multipart/form-data; ${before}${boundary}`;
    const request = new Request("http://localhost/jobs", {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
    await expect(readAttached(request)).rejects.toMatchObject({ status: 400 });
  },
);
