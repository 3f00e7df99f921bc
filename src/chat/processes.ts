import type { AgentProcess, Agent } from "../agents/agent.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import { turnFailure } from "./failure.ts";
import type { Workspaces } from "./workspaces.ts";

/** A process with the facts that decide which turns it can run. */
export type WarmProcess = {
  process: AgentProcess;
  cwd: string;
  /** Start options, which cannot be changed any more. */
  variant: string;
  /** System prompt appended with its first turn; undefined: it had none. */
  appended: string | null | undefined;
  /** Set by an earlier turn. */
  effort: string | null;
  /** Its session continues one that had a turn. */
  resumes: boolean;
};

export type ProcessOptions = {
  loaded: LoadedAgent;
  /**
   * In the CLI's terms; null: the agent's own. A running process could change it, but the CLI then shows the model a
   * command.
   */
  model: string | null;
  maxTurns: number | null;
  disabledMcpServers: readonly string[];
};

type Dependencies = {
  processes: Agent;
  agent: Pick<AgentPackage, "materialise" | "discard">;
  workspaces: Pick<Workspaces, "pathOf" | "use" | "removeEmpty">;
  newId: () => string;
  /** Prefix of process ids, by which a later start recognises what an earlier one left. */
  idPrefix: string;
  log: Log;
};

/** Starts processes with their configuration and working directory, and removes these when the process has ended. */
export const createWarmProcesses = ({ processes, agent, workspaces, newId, idPrefix, log }: Dependencies) => {
  const living = new Set<WarmProcess>();
  /** How many processes use a working directory, or are about to: one may be ending while the next begins. */
  const users = new Map<string, number>();
  /** Working directories that are being removed if they are empty. */
  const removals = new Map<string, Promise<void>>();

  const start = async (
    wanted: ProcessOptions,
    session: { id: string; resumeFrom: string | null },
    cwd: string,
  ): Promise<WarmProcess> => {
    const processId = `${idPrefix}${newId()}`;
    const { model, maxTurns, disabledMcpServers } = wanted;
    users.set(cwd, (users.get(cwd) ?? 0) + 1);
    try {
      await removals.get(cwd);
      await workspaces.use(cwd);
      const launch = await agent.materialise({ processId, cwd, model, maxTurns, disabledMcpServers });
      const started = await processes.start({
        id: processId,
        attempt: 1,
        cwd,
        launch,
        session,
      });
      if (!started.ok) throw turnFailure(started.outcome, new AbortController().signal);
      const warm: WarmProcess = {
        process: started.process,
        cwd,
        variant: variantOf(wanted),
        appended: undefined,
        effort: null,
        resumes: session.resumeFrom !== null,
      };
      living.add(warm);
      void warm.process.ended.then(() => release(warm, processId));
      return warm;
    } catch (error) {
      await clear(processId, cwd);
      if (error instanceof ServiceError) throw error;
      throw new ServiceError("agent_failed", `The agent could not be started: ${String(error)}`, {
        cause: error,
      });
    }
  };

  const release = async (warm: WarmProcess, processId: string): Promise<void> => {
    living.delete(warm);
    await clear(processId, warm.cwd);
  };

  const clear = async (processId: string, cwd: string): Promise<void> => {
    await agent
      .discard(processId)
      .catch((err: unknown) =>
        log.warn({ err }, "the configuration of an agent process could not be removed"),
      );
    const others = (users.get(cwd) ?? 1) - 1;
    if (others > 0) return void users.set(cwd, others);
    users.delete(cwd);
    const removal = workspaces.removeEmpty(cwd).finally(() => {
      if (removals.get(cwd) === removal) removals.delete(cwd);
    });
    removals.set(cwd, removal);
    await removal;
  };

  return {
    /** A new session in a new working directory. */
    fresh: (wanted: ProcessOptions): Promise<WarmProcess> => {
      const id = newId();
      return start(wanted, { id, resumeFrom: null }, workspaces.pathOf(id));
    },
    resumed: (
      wanted: ProcessOptions,
      session: { id: string; resumeFrom: string; cwd: string },
    ): Promise<WarmProcess> => start(wanted, session, session.cwd),
    /** Working directories in use. */
    directories: (): ReadonlySet<string> => new Set(users.keys()),
    count: (): number => living.size,
    endAll: async (): Promise<void> => {
      await Promise.all([...living].map(({ process }) => process.end()));
    },
  };
};

export type WarmProcesses = ReturnType<typeof createWarmProcesses>;

/** Equal for interchangeable processes. */
export const variantOf = ({ loaded, model, maxTurns, disabledMcpServers }: ProcessOptions): string =>
  JSON.stringify([loaded.fingerprint, model, maxTurns, [...new Set(disabledMcpServers)].toSorted()]);

/** Whether it is the variant of a conversation that asks for nothing special. */
export const isDefault = (variant: string): boolean => variant.endsWith(",null,null,[]]");
