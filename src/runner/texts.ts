import type { TurnOutcome } from "../agents/agent.ts";
import type { JobRecord } from "../store/job-record.ts";

/** The task's first line, at most 72 characters: a title that fits a log and a list of pull requests. */
export const pullRequestTitle = ({ task }: JobRecord): string => {
  const line =
    task
      .trim()
      .split(/\r?\n/, 1)[0]
      ?.replace(/[\p{Cc}\s]+/gu, " ")
      .trim() ?? "";
  const characters = Array.from(line);
  return characters.length <= 72 ? line || "Changes by the agent" : `${characters.slice(0, 71).join("")}…`;
};

/** Message of the commit that takes what the agent left uncommitted. */
export const commitMessage = (record: JobRecord): string =>
  `${pullRequestTitle(record)}\n\nCommitted by the service: the agent left these changes uncommitted.\n\nService-Job: ${record.id}\n`;

/** Names what a reviewer wants to know first: where this comes from and what it cost. */
export const pullRequestBody = (record: JobRecord, agent: TurnOutcome): string => {
  const facts = [
    ["Job", record.id],
    ["Profile", record.profile],
    ["Model", agent.model ?? record.model ?? "unknown"],
    ["Cost", agent.costUsd === null ? "unknown" : `$${agent.costUsd.toFixed(4)}`],
    ["Turns", agent.numTurns === null ? "unknown" : String(agent.numTurns)],
  ];
  const quoted = cut(record.task, 4000)
    .split(/\r?\n/)
    .map((line) => `> ${line}`);
  const summary = agent.text === "" ? [] : ["### Summary by the agent", "", cut(agent.text, 8000), ""];
  return [
    "### Task",
    "",
    ...quoted,
    "",
    ...summary,
    "| | |",
    "|---|---|",
    ...facts.map(([name, value]) => `| ${name} | ${value} |`),
    "",
  ].join("\n");
};

const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length)} …`;
