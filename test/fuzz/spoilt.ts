/** Texts that mean something, by the name of the field. */
export const words: Record<string, readonly string[]> = {
  task: ["scenario: noop", "Fix it", "Review it"],
  message: ["scenario: noop", "/thinking /tools Why?"],
  content: ["scenario: noop", "/thinking /tools Why?", "/none"],
  repo_url: ["", "@repo", "/nowhere", "https://127.0.0.1:9/a/b", "ext::sh -c true", "--upload-pack=x"],
  base_ref: ["main", "nowhere", "-x", "a..b"],
  profile: ["", "auto", "code", "nobody"],
  model: ["sonnet", "default", "nobody"],
  session_id: ["", "@session_id"],
  worktree_id: ["@worktree_id", ""],
  paths: ["@worktree_id", "/etc", ".."],
  job_id: ["@job_id"],
  uuid: ["@uuid", "one", "two"],
  id: ["sonnet", "chatcmpl-1"],
  url: ["data:image/png;base64,iVBORw0KGgo=", "http://127.0.0.1:9/x.png"],
  name: ["list_jobs", "get_job", "run_task", "nothing"],
};

/** Input that no client should send. */
export const hostileValues: readonly unknown[] = [
  ..."__proto__ -1 01 %00 ../../../etc/passwd -oProxyCommand=x ${x}".split(" "),
  ..."@long:70000 @slashes:20000 @items:5000 @keys:5000 @deep:500".split(" "),
  ...["", " ", "\0", "\u{d800}", "a\r\nb: c"].values(),
  ...[null, true, -1, 0.5, 1e308, 2 ** 53].values(),
];

/** Chats as large as may be, in one of their fields. */
export const hugeValues: readonly unknown[] = [
  ...["@slashes:150000", "@long:19000000", "@path:400000"].map((content) => ({
    model: "sonnet",
    messages: [{ role: "user", content }],
  })),
  ...["disable_mcp_servers", "modalities", "metadata", "messages", "stop", "x"].flatMap((field) =>
    ["@items:9000000", "@deep:9000000", "@keys:1500000", "@long:19000000"].map((value) => ({
      model: "sonnet",
      messages: [{ role: "user", content: "Hello" }],
      [field]: value,
    })),
  ),
];

const long: Record<string, (count: number) => string> = {
  items: (count) => `[${"0,".repeat(count - 1)}0]`,
  deep: (count) => "[".repeat(count) + "]".repeat(count),
  keys: (count) => `{${Array.from({ length: count }, (_, at) => `"k${at}":0`).join()}}`,
  long: (count) => `"${"x".repeat(count)}"`,
  slashes: (count) => `"${"/verbose ".repeat(count)}"`,
  path: (count) => `"${"/".repeat(count)}tools"`,
};

/** The value as JSON text, with what its words stand for; `known`: ids that the service has given. */
export const written = (value: unknown, known: ReadonlyMap<string, string>): string =>
  (JSON.stringify(value) ?? "")
    .replaceAll(/"@(\w+):(\d+)"/g, (word, name: string, count: string) => long[name]?.(Number(count)) ?? word)
    .replaceAll(/@(\w+)\b/g, (word, name: string) => known.get(name) ?? word);

export type Spoilt = {
  method?: string;
  path?: string;
  query?: string;
  headers?: Record<string, string>;
  body?: (content: string) => string | Buffer;
};

export const spoiltRequests: readonly Spoilt[] = [
  ...["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "DELETE"].map((method) => ({ method })),
  ...["/", "%zz", "%00", "%c3", "/../jobs", "//", "/%2e%2e/x"].map((path) => ({ path })),
  ...["limit=1&limit=2", "x", "%zz=1", "__proto__=1", "api_key=x", "="].map((query) => ({ query })),
  ...[
    { "content-type": "text/plain" },
    { "content-type": "application/json; charset=latin1" },
    { "content-encoding": "gzip" },
    { accept: "text/html" },
    { host: "example.org" },
    { origin: "https://example.org" },
    { "x-api-key": "x" },
    { "last-event-id": "-1" },
    { "idempotency-key": "x".repeat(300) },
    { "mcp-protocol-version": "1" },
    { expect: "200-maybe" },
    { "transfer-encoding": "chunked" },
  ].map((headers) => ({ headers: headers as Record<string, string> })),
  { body: () => "" },
  { body: (content) => content.slice(0, content.length / 2) },
  { body: (content) => `${content}}` },
  { body: (content) => `\u{feff}${content}` },
  { body: (content) => Buffer.concat([Buffer.from(content), Buffer.of(0xff)]) },
];

const host = "Host: localhost\r\n";

/** What no HTTP client sends. Each is answered in words, or its connection is ended. */
export const brokenRequests: readonly string[] = [
  "GET /health HTTP/1.1\r\n\r\n",
  `GET /health HTTP/1.1\r\n${host}${host}\r\n`,
  `GET /he alth HTTP/1.1\r\n${host}\r\n`,
  `GET http://[/ HTTP/1.1\r\n${host}\r\n`,
  `CONNECT localhost:1 HTTP/1.1\r\n${host}\r\n`,
  `GET /health HTTP/1.1\r\n${host}X: ${"x".repeat(20_000)}\r\n\r\n`,
  `POST /jobs HTTP/1.1\r\n${host}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}`,
  `POST /jobs HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}`,
  `POST /jobs HTTP/1.1\r\n${host}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  `GET /mcp HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  "\0\0\0\0",
];
