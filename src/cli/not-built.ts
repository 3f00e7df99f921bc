/** The documented commands that a later version brings. They are in no help: what is not built is not promised. */
const later = ["update", "agent", "push", "agents", "hooks"];

/** The answer to one of them, or null. */
export const notBuilt = (argv: string[]): string | null => {
  const [first, second] = argv.filter((argument) => !argument.startsWith("-"));
  const command = first === "help" ? second : first;
  if (command === undefined || !later.includes(command)) return null;
  return `svc: ${command} is not in this version; svc --help lists what is`;
};
