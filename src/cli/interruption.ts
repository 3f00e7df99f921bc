import { exitCode, type ExitCode } from "./failure.ts";

/** The first SIGINT or SIGTERM aborts the signal; the same once more ends the process at once. */
export type Interruption = Disposable & {
  signal: AbortSignal;
  /** What aborted it; null: nothing yet. */
  signalName: () => NodeJS.Signals | null;
  /** Aborted by a later signal, where a SIGTERM is given time. */
  secondSignal: AbortSignal;
  /** How to exit when the signal is aborted. */
  exit: () => ExitCode;
};

type Options = {
  /** The end of the terminal ends the process too; kernel and shell may both send its signal. */
  hangup?: boolean;
  /** A SIGTERM may take long: only the second signal after it ends the process at once. */
  patient?: boolean;
};

export const catchInterruption = ({ hangup = false, patient = false }: Options = {}): Interruption => {
  const controller = new AbortController();
  const again = new AbortController();
  let by: NodeJS.Signals | null = null;

  const onSignal = (signal: NodeJS.Signals): void => {
    if (by !== null) return again.abort();
    by = signal;
    if (signal === "SIGTERM" && patient) process.once("SIGTERM", onSignal);
    controller.abort();
  };
  process.once("SIGINT", onSignal);
  process.once("SIGTERM", onSignal);
  // Never removed: the signal may come again while the process ends.
  if (hangup) process.on("SIGHUP", onSignal);
  return {
    signal: controller.signal,
    signalName: () => by,
    secondSignal: again.signal,
    exit: () => (by === null || by === "SIGINT" ? exitCode.interrupted : exitCode.terminated),
    [Symbol.dispose]: () => {
      process.removeListener("SIGINT", onSignal);
      process.removeListener("SIGTERM", onSignal);
    },
  };
};

/**
 * Does the work until a signal interrupts it; resolves to its exit code, or to the signal's.
 * @param onInterrupted says what becomes of the work
 */
export const interruptible = async (
  work: (signal: AbortSignal) => Promise<ExitCode>,
  onInterrupted: () => void = () => undefined,
): Promise<ExitCode> => {
  using interruption = catchInterruption();
  try {
    return await work(interruption.signal);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    onInterrupted();
    return interruption.exit();
  }
};
