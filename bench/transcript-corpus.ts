import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/**
 * Writes sessions as the agent CLI does; what is read, run and said comes from this project and its dependencies.
 * @returns bytes written
 */
export const writeCorpus = (
  home: string,
  { sessions, bytes }: { sessions: number; bytes: number },
): number => {
  const material = gather();
  const random = randomOf(11);
  let written = 0;
  for (let n = 0; n < sessions; n += 1) {
    const project = `/home/ana/code/app-${n % 40}`;
    const directory = join(home, "projects", project.replaceAll(/[^a-z0-9]/gi, "-"));
    mkdirSync(directory, { recursive: true });
    const id = sessionId(n);
    // Some are long and many are short.
    const size = bytes * ([0.25, 0.5, 0.75, 1, 2.5][n % 5] ?? 1);
    const text = session({ n, id, project, size, random, material });
    writeFileSync(join(directory, `${id}.jsonl`), text);
    written += Buffer.byteLength(text);
  }
  return written;
};

const sessionId = (n: number): string => `${n.toString(16).padStart(8, "0")}-5e55-4000-8000-000000000000`;

type Random = () => number;

const randomOf = (begin: number): Random => {
  let seed = begin;
  return () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
};

/** Some megabytes of source and documentation. */
const gather = (): string => {
  const texts: string[] = [];
  let size = 0;
  for (const folder of [
    "src",
    "docs",
    "node_modules/zod",
    "node_modules/typescript",
    "node_modules/@octokit",
    "node_modules/hono",
  ])
    for (const file of readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })) {
      if (!/\.(ts|md|js|json|mjs)$/.test(file)) continue;
      const text = readFileSync(join(root, folder, file), "utf8");
      if (text.length > 400_000) continue;
      texts.push(text);
      size += text.length;
      if (size > 24_000_000) return texts.join("\n");
    }
  return texts.join("\n");
};

type Asked = { n: number; id: string; project: string; size: number; random: Random; material: string };

const session = ({ n, id, project, size, random, material }: Asked): string => {
  const lines: string[] = [];
  let written = 0;
  let at = Date.parse("2026-01-01T00:00:00Z") + n * 3_600_000;
  let parent: string | null = null;
  let count = 0;
  const uuid = (): string =>
    `${(count += 1).toString(16).padStart(8, "0")}-${id.slice(0, 4)}-4abc-9def-${id.slice(0, 8)}0000`;
  const slice = (least: number, most: number): string => {
    const length = Math.floor(least + random() ** 3 * (most - least));
    const from = Math.floor(random() * (material.length - length));
    return material.slice(from, from + length);
  };
  const words = (least: number, most: number): string => slice(least, most).replaceAll(/[^\w.,]+/g, " ");
  const add = (line: object): void => {
    const text = JSON.stringify(line);
    written += text.length + 1;
    lines.push(text);
  };
  const message = (type: string, body: object): void => {
    at += Math.floor(random() * 8000);
    const own = uuid();
    const envelope = {
      parentUuid: parent,
      isSidechain: false,
      userType: "external",
      cwd: project,
      sessionId: id,
      version: "2.1.197",
      gitBranch: "main",
      slug: "calm-river-fox",
    };
    add({ ...envelope, type, ...body, uuid: own, timestamp: new Date(at).toISOString() });
    parent = own;
  };
  const answer = (content: object[]): void =>
    message("assistant", {
      message: {
        model: "claude-opus-4-8",
        id: `msg_${uuid()}`,
        type: "message",
        role: "assistant",
        content,
        stop_reason: "tool_use",
        stop_sequence: null,
        usage: {
          input_tokens: 12,
          cache_creation_input_tokens: 900,
          cache_read_input_tokens: 40_000,
          output_tokens: 300,
          service_tier: "standard",
        },
      },
      requestId: `req_${uuid()}`,
    });
  while (written < size) {
    message("user", { message: { role: "user", content: words(40, 600) } });
    add({
      type: "file-history-snapshot",
      messageId: uuid(),
      snapshot: { trackedFileBackups: {}, timestamp: new Date(at).toISOString() },
      isSnapshotUpdate: false,
    });
    const steps = 3 + Math.floor(random() * 20);
    for (let step = 0; step < steps && written < size; step += 1) {
      if (random() < 0.3)
        answer([{ type: "thinking", thinking: words(100, 3000), signature: `Eq${uuid().repeat(8)}` }]);
      if (random() < 0.3) answer([{ type: "text", text: words(60, 1500) }]);
      const call = `toolu_${uuid()}`;
      const path = `${project}/src/part-${step}/file-${Math.floor(random() * 50)}.ts`;
      const kind = random();
      const result = slice(200, 24_000);
      const back = (toolUseResult: object, content: string, is_error = false): void =>
        message("user", {
          message: { role: "user", content: [{ tool_use_id: call, type: "tool_result", content, is_error }] },
          toolUseResult,
        });
      if (kind < 0.45) {
        answer([{ type: "tool_use", id: call, name: "Read", input: { file_path: path } }]);
        const numbered = result
          .split("\n")
          .map((line, row) => `${String(row + 1).padStart(6)}→${line}`)
          .join("\n");
        back(
          {
            type: "text",
            file: { filePath: path, content: result, numLines: 100, startLine: 1, totalLines: 100 },
          },
          numbered,
        );
      } else if (kind < 0.8) {
        answer([
          {
            type: "tool_use",
            id: call,
            name: "Bash",
            input: { command: `npm test -- ${words(10, 60)}`, description: words(10, 40) },
          },
        ]);
        back({ stdout: result, stderr: "", interrupted: false, isImage: false }, result, random() < 0.1);
      } else {
        const old_string = slice(60, 2000);
        const new_string = slice(60, 2000);
        answer([
          { type: "tool_use", id: call, name: "Edit", input: { file_path: path, old_string, new_string } },
        ]);
        back(
          {
            filePath: path,
            oldString: old_string,
            newString: new_string,
            originalFile: result,
            structuredPatch: [],
            userModified: false,
          },
          `The file ${path} has been updated.`,
        );
      }
    }
    answer([{ type: "text", text: words(200, 3000) }]);
  }
  return `${lines.join("\n")}\n`;
};
