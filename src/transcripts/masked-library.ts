import { redactDeep, type Redact } from "../lib/redact.ts";
import type { Library } from "./library.ts";

/** The same library with secrets masked in all that is read from it, before anything is cut out of it. */
export const maskedLibrary = (library: Library, mask: Redact): Library => {
  const masked = <Value>(value: Value): Value => redactDeep(value, mask);
  return {
    listSessions: (filter) => masked(library.listSessions(filter)),
    session: (id) => masked(library.session(id)),
    sessionsStartingWith: (beginning) => library.sessionsStartingWith(beginning),
    entries: (id, range) => masked(library.entries(id, range)),
    actions: async (id, types) => {
      const { calls, actions } = await library.actions(id, types);
      return { calls, actions: masked(actions) };
    },
    // A preview may begin or end inside a secret, and its marks split words.
    search: (question) => masked(library.search({ ...question, mask })),
    memoryFiles: (project) => masked(library.memoryFiles(project)),
    memoryFile: (project, filename) => masked(library.memoryFile(project, filename)),
    plans: (filter) => masked(library.plans(filter)),
    plan: (codename) => masked(library.plan(codename)),
    agentPlans: (codename) => masked(library.agentPlans(codename)),
    history: (filter) => masked(library.history(filter)),
  };
};
