import type { Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { statusOf } from "../../src/contract/errors.ts";
import { createTestApp } from "../../src/http/app.fixture.ts";
import { openaiRoutes } from "../../src/openai/routes.ts";
import { wrapped } from "./item.ts";
import { fieldLines, fields, type Schema } from "./schema.ts";

type Described = {
  operationId?: string;
  summary?: string;
  description?: string;
  deprecated?: boolean;
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: Schema }[];
  requestBody?: { content: Record<string, { schema?: Schema }> };
  responses?: Record<string, { description?: string }>;
};

type Document = {
  tags?: { name: string }[];
  paths: Record<string, Record<string, Described>>;
  components?: { schemas?: Record<string, Schema> };
};

/** What the service says of itself at `/openapi.json`, with agent mode. */
const openapi = async (): Promise<Document> => {
  const never = (): never => {
    throw new Error("only the description of the routes is asked for");
  };
  const chat = {
    models: never,
    begin: never,
    answer: never,
    cancel: never,
    visibility: never,
    setVisibility: never,
  };
  const log = { debug: never, info: never, warn: never, error: never };
  const settings = { agentModeStallTimeout: 120, agentModeSideRequests: true };
  const { app } = createTestApp({ routes: openaiRoutes({ chat, settings, log }) });
  const reply = await app.request("/openapi.json", { headers: { host: "127.0.0.1" } });
  return (await reply.json()) as Document;
};

export const restPage = async (): Promise<string> => {
  const document = await openapi();
  const find = (ref: string): Schema => document.components?.schemas?.[ref.split("/").at(-1) ?? ""] ?? {};
  const all = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ method: method.toUpperCase(), path, described })),
  );
  const tags = (document.tags ?? []).map(({ name }) => name);
  return [
    "# REST reference",
    wrapped(
      "The paths that `/openapi.json` describes. Where a tool is named, an MCP client has the same operation under that name. [REST](rest.md) explains how to use them, and what every request can fail with.",
    ),
    ...tags.flatMap((tag) => {
      const tagged = all.filter(({ described }) => (described.tags?.[0] ?? "Service") === tag);
      return tagged.length === 0 ? [] : [`## ${tag}`, ...tagged.flatMap((each) => section(each, find))];
    }),
    "## Codes of failures",
    codes(),
  ].join("\n\n");
};

type Place = { method: string; path: string; described: Described };

const section = ({ method, path, described }: Place, find: (ref: string) => Schema): string[] => {
  const known = Object.entries<Operation>(operations).find(([name]) => name === described.operationId)?.[1];
  const body = described.requestBody?.content["application/json"]?.schema;
  const schema = body?.$ref === undefined ? body : find(body.$ref);
  const lines = [
    ...(described.parameters ?? []).flatMap((each) =>
      fieldLines(
        each.name,
        { ...each.schema, ...(each.description !== undefined && { description: each.description }) },
        each.required === true,
        find,
      ),
    ),
    ...(schema === undefined ? [] : fields(schema, find)),
  ];
  return [
    `### ${method} ${path}`,
    wrapped(about(described, known)),
    ...(lines.length > 0 ? [lines.join("\n")] : []),
  ];
};

/** What it does, its tool and its codes. */
const about = (
  { operationId, description, summary = "", deprecated }: Described,
  known: Operation | undefined,
): string => {
  const text = description ?? summary;
  const codes = (known?.errors ?? []).map((code) => `\`${code}\``).join(", ");
  return [
    /[.!]$/.test(text) ? text : `${text}.`,
    ...(deprecated === true ? ["Deprecated."] : []),
    ...(known === undefined || known.mcp === false ? [] : [`Tool: \`${operationId}\`.`]),
    ...(codes === "" ? [] : [`Fails with ${codes}.`]),
  ].join(" ");
};

/** Each code with its status: of both programs. */
const codes = (): string => {
  const byStatus = Object.groupBy(Object.keys(statusOf), (code) => statusOf[code as keyof typeof statusOf]);
  const rows = Object.entries(byStatus).map(
    ([status, group]) => `- ${status}: ${group.map((code) => `\`${code}\``).join(", ")}`,
  );
  return rows.map((row) => wrapped(row, "  ")).join("\n");
};
