import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ClaudeBlock, toArguments } from "./claude-block.ts";

const argumentsOf = (block: Record<string, unknown>) => toArguments(ClaudeBlock.parse(block));

describe("a claude block as arguments", () => {
  it("is a flag in kebab case for each key, with its value joined to it", () => {
    expect(argumentsOf({ model: "opus", max_turns: 3, max_budget_usd: 0.5, some_new_option: "x" })).toEqual([
      "--model=opus",
      "--max-turns=3",
      "--max-budget-usd=0.5",
      "--some-new-option=x",
    ]);
  });

  it("is a bare flag for true, and nothing for false and null", () => {
    expect(argumentsOf({ brief: true, other: false, third: null })).toEqual(["--brief"]);
  });

  it("repeats the flag for each entry of a list, and passes a map as JSON", () => {
    expect(
      argumentsOf({ allowed_tools: ["Bash(git log *)", "Edit"], agents: { a: { prompt: "p" } } }),
    ).toEqual(["--allowed-tools=Bash(git log *)", "--allowed-tools=Edit", '--agents={"a":{"prompt":"p"}}']);
  });

  it("limits the tools to none for an empty list of tools", () => {
    expect(argumentsOf({ tools: [], allowed_tools: [] })).toEqual(["--tools="]);
  });

  it("leaves worktree and timeout to the service, and knows the mode that is a flag of its own", () => {
    expect(
      argumentsOf({ worktree: true, timeout: 5, permission_mode: "dangerously-skip-permissions" }),
    ).toEqual(["--dangerously-skip-permissions"]);
    expect(argumentsOf({ permission_mode: "plan" })).toEqual(["--permission-mode=plan"]);
  });
});

describe("no value can become an option:", () => {
  const key = fc.stringMatching(/^[a-z][a-z0-9]{1,8}(_[a-z0-9]{1,8}){0,3}$/).map((text) => `x${text}`);
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("--resume", "-p", "--x=y", "=", "", "\n--print"),
  );
  const value = fc.oneof(
    text,
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(text),
    // Zod drops a key `__proto__`.
    fc.dictionary(
      fc.string().filter((name) => name !== "__proto__"),
      text,
    ),
  );

  it("every argument is the kebab-case flag of a key, alone or followed by = and the value to the letter", () => {
    fc.assert(
      fc.property(fc.dictionary(key, value), (block) => {
        const expected = Object.entries(block).flatMap(([name, given]) => {
          const flag = `--${name.replaceAll("_", "-")}`;
          if (given === true) return [[flag]];
          if (given === false || given === null) return [];
          if (Array.isArray(given)) return given.map((item) => [flag, item]);
          return [[flag, typeof given === "object" ? JSON.stringify(given) : String(given)]];
        });
        expect(argumentsOf(block)).toEqual(expected.map((parts) => parts.join("=")));
        for (const argument of argumentsOf(block))
          expect(argument).toMatch(/^--[a-z][a-z0-9]*(-[a-z0-9]+)*(=|$)/);
      }),
    );
  });

  it("a key that is not plain words joined by _ is refused", () => {
    const odd = fc
      .string({ minLength: 1 })
      .filter((name) => !/^[a-z][a-z0-9]+(_[a-z0-9]+)*$/.test(name) && name !== "__proto__");
    fc.assert(
      fc.property(odd, (name) => {
        expect(ClaudeBlock.safeParse({ [name]: "x" }).success).toBe(false);
      }),
    );
  });
});

it.each(
  "print output_format input_format session_id resume continue fork_session setting_sources settings mcp_config strict_mcp_config add_dir replay_user_messages debug_file bare dangerously_skip_permissions no_session_persistence".split(
    " ",
  ),
)("the key %s is refused with a reason", (name) => {
  const result = ClaudeBlock.safeParse({ [name]: true });
  expect(result.error?.issues).toEqual([
    expect.objectContaining({ message: expect.stringMatching(/^cannot be set: .{15}/) }),
  ]);
});
