/** The configuration cannot be used. `message` names every fault at once; it never contains a secret. */
export class ConfigError extends Error {
  override name = "ConfigError";
  readonly code = "invalid_configuration";
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    const [only] = faults;
    super(
      faults.length === 1 && only !== undefined
        ? `The configuration cannot be used: ${only}`
        : `The configuration cannot be used, ${faults.length} faults:\n${faults.map((fault) => `- ${fault}`).join("\n")}`,
    );
    this.faults = faults;
  }
}
