import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { svc } from "../cli/run-svc.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/* Files that go with a task, through each door, to the real CLI. */

const model = await startFakeModel({ token: "model-token" });
const service = await startService({
  env: {
    SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
    MODEL_API_BASE_URL: model.url,
    MODEL_API_AUTH_TOKEN: "model-token",
  },
});
const ask = asks(service);
const task = 'scenario: text {"text": "Seen."}';
const png =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const pdf = Buffer.from("%PDF-1.4\n1 0 obj << >> endobj\ntrailer << >>\n%%EOF\n");

const form = (parts: [name: string, value: string | Buffer, filename?: string][]): FormData => {
  const body = new FormData();
  for (const [name, value, filename] of parts)
    if (filename === undefined) body.append(name, String(value));
    else body.append(name, new Blob([new Uint8Array(Buffer.from(value))]), filename);
  return body;
};
const post = async (body: FormData | string, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${service.url}/jobs`, { method: "POST", body, headers });
  return {
    status: answer.status,
    ...((await answer.json()) as { code?: string; error?: string; job?: { id: string } }),
  };
};
const said = (): string => JSON.stringify(model.requests.map(({ body }) => body));

test("REST: the model gets the bytes of the picture and of the PDF; a text is in the worktree; a retry is the same job", async () => {
  const parts = (): FormData =>
    form([
      ["job", JSON.stringify({ task })],
      ["attach", Buffer.from(png, "base64"), "shot.png"],
      ["attach", pdf, "spec.pdf"],
      ["attach", "12:00 — failed", "log.txt"],
    ]);
  const key = { "idempotency-key": "one" };
  const [first, again] = [await post(parts(), key), await post(parts(), key)];
  expect(first).toMatchObject({
    status: 200,
    job: { options: { files: ["shot.png", "spec.pdf", "log.txt"] } },
  });
  expect(again.job?.id).toBe(first.job?.id);
  const job = await ask.ended(String(first.job?.id));
  expect(job).toMatchObject({ status: "succeeded", error: null, output: "Seen." });
  expect(said()).toContain(`"media_type":"image/png","data":"${png}"`);
  expect(said()).toContain(`"media_type":"application/pdf","data":"${pdf.toString("base64")}"`);
  const path = join(String(job.worktree_path), ".svc", "in", "log.txt");
  expect(said()).toContain(path);
  expect(await readFile(path, "utf8")).toBe("12:00 — failed");
});

test("svc run --attach and options.files of JSON bring the same", async () => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "own.txt"), "of the shell");
  const env = { SERVICE_PORT: new URL(service.url).port, HOME: directory };
  const { stdout, code } = await svc(
    ["run", task, "--no-repo", "--json", "--wait", "--attach", join(directory, "own.txt")],
    { env },
  );
  expect(code).toBe(0);
  const { job } = JSON.parse(stdout) as { job: { worktree_path: string } };
  expect(await readFile(join(job.worktree_path, ".svc/in/own.txt"), "utf8")).toBe("of the shell");
  const files = [{ name: "own.png", content: png, encoding: "base64" as const }];
  const before = model.requests.length;
  expect(await ask.run({ task, options: { files } })).toMatchObject({ status: "succeeded" });
  expect(JSON.stringify(model.requests.slice(before).map(({ body }) => body))).toContain(png);
});

const job = JSON.stringify({ task });
test.each<[Parameters<typeof form>[0], number, RegExp]>([
  [
    [
      ["job", job],
      ["attach", "text", "a.png"],
    ],
    400,
    /"a\.png" is no image\/png by its first bytes/,
  ],
  [
    [
      ["job", job],
      ["attach", Buffer.from(png, "base64"), "a.pdf"],
    ],
    400,
    /is no application\/pdf/,
  ],
  [
    [
      ["job", job],
      ["attach", "", "a.txt"],
    ],
    400,
    /content: must not be empty/,
  ],
  [
    [
      ["job", job],
      ["attach", "x", "a"],
      ["attach", "y", "a"],
    ],
    400,
    /different name/,
  ],
  [
    [
      ["job", job],
      ["attach", "x", "../a"],
    ],
    400,
    /plain file name/,
  ],
  [
    [
      ["job", job],
      ["attach", "x", "a\nb"],
    ],
    400,
    /plain file name/,
  ],
  [
    [
      ["job", job],
      ["attach", "x"],
    ],
    400,
    /attach: each part needs a filename/,
  ],
  [
    [
      ["job", job],
      ["more", "x", "a"],
    ],
    400,
    /part "more" is not known/,
  ],
  [[["attach", "x", "a"]], 400, /one part named job/],
  [
    [
      ["job", "{"],
      ["attach", "x", "a"],
    ],
    400,
    /not valid JSON/,
  ],
  [
    [
      ["job", "[]"],
      ["attach", "x", "a"],
    ],
    400,
    /part job must be a JSON object/,
  ],
  [
    [
      ["job", job],
      ["attach", Buffer.concat([Buffer.from(png, "base64"), Buffer.alloc(5_000_000)]), "a.png"],
    ],
    400,
    /more than 5 MB/,
  ],
  [
    [
      ["job", job],
      ["attach", Buffer.alloc(25 * 1024 * 1024 + 1, 120), "a"],
    ],
    400,
    /25 MiB together/,
  ],
  [
    [
      ["job", job],
      ...Array.from({ length: 21 }, (_, nth): [string, string, string] => ["attach", "x", `${nth}`]),
    ],
    400,
    /more than 21 parts/,
  ],
])("what cannot be taken is refused with the reason (case %#)", async (parts, status, error) => {
  expect(await post(form(parts))).toMatchObject({ status, error: expect.stringMatching(error) });
});

test("a body that is too large is refused before it is sent", async () => {
  const asked = request(`${service.url}/jobs`, {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b", "content-length": 27 * 1024 * 1024 },
  });
  asked.flushHeaders();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  expect([answer.statusCode, await text(answer)]).toEqual([413, expect.stringContaining("27,262,976 bytes")]);
  asked.destroy();
});

test("a part without a name, and a body that is cut, are refused", async () => {
  const type = { "content-type": "multipart/form-data; boundary=b" };
  const bodies = [
    "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
    '--b\r\nContent-Disposition: form-data; name="job"\r\n\r\n{',
  ];
  for (const body of bodies)
    expect(await post(body, type)).toMatchObject({
      status: 400,
      error: expect.stringMatching(/valid multipart/),
    });
});
