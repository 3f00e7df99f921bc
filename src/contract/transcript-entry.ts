import { z } from "zod";
import { time } from "./transcript-tool.ts";

export const entryTypes = ["user", "assistant", "summary", "system"] as const;
export type EntryType = (typeof entryTypes)[number];

export const Entry = z.object({
  entry_type: z.enum(entryTypes),
  timestamp: time,
  content: z.string(),
  tool_names: z.array(z.string()).describe("Tools that the entry calls"),
  uuid: z.string(),
  inherited: z
    .literal(true)
    .optional()
    .describe("A line that a fork has from another session, where it counts and is found"),
});

const call_id = z.string();

/** What an entry has beside its content, in order: its calls, and the thinking and results until the next entry. */
const Detail = z.union([
  z.object({ kind: z.literal("thinking"), text: z.string() }),
  z.object({
    kind: z.literal("call"),
    call_id,
    name: z.string(),
    input: z.unknown().describe("A long one is a text that was cut"),
  }),
  z.object({ kind: z.literal("result"), call_id, text: z.string(), is_error: z.boolean() }),
]);
export type Detail = z.infer<typeof Detail>;

export const DetailedEntry = Entry.extend({
  details: z
    .array(Detail)
    .optional()
    .describe("Calls of the entry; thinking and results up to the next entry; if asked for"),
});
export type Entry = z.infer<typeof DetailedEntry>;
