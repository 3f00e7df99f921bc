import { z } from "zod";
import type { McpOperation, Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { transcriptOperations } from "../../src/contract/transcript.ts";
import { item, wrapped } from "./item.ts";
import { fields, type Schema } from "./schema.ts";

/** The MCP tools of both programs. */
export const toolsPage = (): string =>
  [
    "# MCP tools",
    wrapped(
      "Every tool of `svc` ([MCP](mcp.md)) and of `bridge` ([transcripts](transcripts.md)). A result is the JSON body that the schema of its tool describes.",
    ),
    "## Of svc",
    "The arguments are those of the operation in the [REST reference](rest-reference.md).",
    Object.entries<Operation>(operations).flatMap(svcTool).join("\n"),
    "## Of bridge",
    ...Object.entries<McpOperation>(transcriptOperations).flatMap(bridgeTool),
  ].join("\n\n");

const svcTool = ([name, operation]: [string, Operation]): string[] => {
  if (operation.mcp === false) return [];
  const { method, path } = operation.http;
  const place = `\`${method.toUpperCase()} ${path}\``;
  return [item(`\`${name}\` (${place}): ${[operation.summary, ...hints(operation)].join(" ")}`)];
};

const bridgeTool = ([name, operation]: [string, McpOperation]): string[] => {
  const lines = fields(z.toJSONSchema(operation.input, { io: "input" }) as Schema, () => ({}));
  const codes = operation.errors.map((code) => `\`${code}\``).join(", ");
  return [
    `### ${name}`,
    wrapped([operation.summary, ...hints(operation), `Fails with ${codes}.`].join(" ")),
    ...(lines.length > 0 ? [lines.join("\n")] : []),
  ];
};

const hints = ({ annotations, part, scope }: McpOperation): string[] => [
  ...(annotations.readOnly ? ["It only reads."] : []),
  ...(annotations.destructive ? ["Marked as destructive."] : []),
  ...(part === "agent" ? ["In agent mode only."] : []),
  ...(scope === undefined || scope === "read" ? [] : [`It needs the scope \`${scope}\`.`]),
];
