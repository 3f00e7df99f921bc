import { answerOperations } from "./answer.ts";
import { companionOperations } from "./companion.ts";
import { completionOperations } from "./completion.ts";
import { diffOperations } from "./diff.ts";
import { environmentOperations } from "./environment.ts";
import { instanceOperations } from "./instance.ts";
import { jobListOperations } from "./job-list.ts";
import { jobOperations } from "./job-operations.ts";
import { messageOperations } from "./message.ts";
import { toolNamesOf } from "./operation.ts";
import { profileOperations } from "./profile.ts";
import { secretOperations } from "./secret.ts";
import { usageOperations } from "./usage.ts";
import { visibilityOperations } from "./visibility.ts";
import { worktreeOperations } from "./worktree.ts";

/** Every operation of the service. */
export const operations = {
  ...jobOperations,
  ...answerOperations,
  ...messageOperations,
  ...jobListOperations,
  ...diffOperations,
  ...profileOperations,
  ...worktreeOperations,
  ...secretOperations,
  ...environmentOperations,
  ...instanceOperations,
  ...companionOperations,
  ...usageOperations,
  ...completionOperations,
  ...visibilityOperations,
};

export type Operations = typeof operations;

/** Names of the MCP tools, in order. */
export const toolNames = toolNamesOf(operations);
