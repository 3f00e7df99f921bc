import { exitCode, isBug, type ExitCode } from "../cli/failure.ts";
import type { Paint } from "../view/paint.ts";
import { oneLine } from "../view/sanitise.ts";
import { isCharacter } from "./keys.ts";

/** Columns and rows. */
export type Size = { columns: number; rows: number };

/** What fills the terminal, and what the keys do there. */
export type Screen = {
  title: () => string;
  /** At most `rows` lines. Longer lines are cut. */
  body: (size: Size) => string[];
  /** The last line: what the keys do. */
  hints: () => string;
  /** `more`: characters follow in the same piece of input, as in a paste. */
  key: (key: string, more: boolean) => void;
  /** Runs while the screen is on top; the signal aborts when another covers it or takes its place. */
  watch?: (signal: AbortSignal) => Promise<void>;
};

/** A program or a conversation that has the terminal for itself until it ends. */
export type Takeover = () => Promise<ExitCode>;

/** The screens, the last one on top; they outlive a takeover. */
export type Ui = ReturnType<typeof createUi>;

/** The shortest time between two redraws, ms. */
const frameMs = 40;

export const createUi = (paint: Paint) => {
  const stack: Screen[] = [];
  const listeners = new Set<() => void>();
  let version = 0;
  let notice = "";
  let watching = new AbortController();
  let ending = Promise.withResolvers<ExitCode | Takeover>();
  let frame: NodeJS.Timeout | undefined;

  const redraw = (): void => {
    frame ??= setTimeout(() => {
      frame = undefined;
      version += 1;
      for (const listener of listeners) listener();
    }, frameMs);
  };

  const watch = (): void => {
    watching.abort();
    watching = new AbortController();
    const { signal } = watching;
    stack
      .at(-1)
      ?.watch?.(signal)
      .catch((error: unknown) => {
        if (!signal.aborted) ending.reject(error);
      });
    redraw();
  };

  const say = (text: string): void => {
    notice = oneLine(text);
    redraw();
  };

  return {
    paint,
    redraw,
    /** A line above the last one, until the next key. */
    say,
    open: (screen: Screen): void => {
      stack.push(screen);
      watch();
    },
    /** Opens the screen in the place of the one on top. */
    replace: (screen: Screen): void => {
      stack.splice(-1, 1, screen);
      watch();
    },
    /** The first screen stays. */
    back: (): void => {
      if (stack.length > 1) stack.pop();
      watch();
    },
    quit: (code: ExitCode): void => ending.resolve(code),
    takeOver: (run: Takeover): void => ending.resolve(run),
    /** Does what the user asked for; a failure becomes the notice. */
    attempt: (work: () => void | Promise<void>): void => {
      const failed = (error: unknown): void => {
        if (isBug(error)) ending.reject(error);
        else say(error instanceof Error ? error.message : String(error));
      };
      void (async () => work())().catch(failed);
    },

    /** For the program that shows it. */
    top: (): Screen | undefined => stack.at(-1),
    notice: (): string => notice,
    version: (): number => version,
    subscribe: (listener: () => void): (() => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    press: (keys: readonly string[]): void => {
      notice = "";
      try {
        for (const [index, key] of keys.entries()) {
          if (key === "ctrl-c") ending.resolve(exitCode.interrupted);
          else stack.at(-1)?.key(key, keys.slice(index + 1).some(isCharacter));
        }
      } catch (error) {
        ending.reject(error);
      }
      redraw();
    },
    /** Runs until the user leaves, or asks for something that takes over the terminal. */
    run: async (): Promise<ExitCode | Takeover> => {
      ending = Promise.withResolvers();
      watch();
      try {
        return await ending.promise;
      } finally {
        watching.abort();
        clearTimeout(frame);
        frame = undefined;
      }
    },
  };
};
