import { Gauge, type Registry } from "prom-client";

type Counts = { turns: number; processes: number };

/** What agent mode is at; nothing when it is off. */
export const createChatMetrics = (registry: Registry, counts: () => Counts | null): void => {
  const gauge = (name: string, help: string, of: (counts: Counts) => number): Gauge =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const now = counts();
        this.reset();
        if (now !== null) this.set(of(now));
      },
    });
  gauge("svc_chat_turns", "Answers of agent mode under way in this instance", ({ turns }) => turns);
  gauge("svc_chat_processes", "Processes of agent mode, at work or waiting", ({ processes }) => processes);
};
