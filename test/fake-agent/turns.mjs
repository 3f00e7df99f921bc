import { appendFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createProtocol } from "./protocol.mjs";
import { findScenario, parseTask } from "./scenarios.mjs";
import { writeLine } from "./write.mjs";

/** What a turn costs, US dollars. */
const price = 0.0123;

/** Thrown into a scenario that goes on although its turn was interrupted. */
const over = new Error("the turn was interrupted");

/**
 * Takes one turn after another, as the real one does: what is said during a turn is merged into the next, the cost adds
 * up over the process, and an interrupted turn ends with an error result.
 */
export const createTurns = ({ args, transcript, record, asking }) => {
  const waiting = [];
  let ended = false;
  let lastCode = 0;
  let spent = 0;
  let number = 0;
  /** The turn under way. */
  let current = null;

  const replays = args.flags.includes("--replay-user-messages");

  /** Lines with an id are taken one by one, by their priority; the others at once. */
  const next = () => {
    if (current !== null) return;
    waiting.sort((a, b) => rankOf(a) - rankOf(b));
    const [first] = waiting;
    if (first === undefined) return void (ended && process.exit(lastCode));
    const taken = first.uuid === undefined ? waiting.filter(({ uuid }) => uuid === undefined) : [first];
    for (const one of taken) waiting.splice(waiting.indexOf(one), 1);
    void run(
      taken.flatMap(({ content }) => content),
      { uuid: first.uuid },
    );
  };

  /** What the agent sees of what was said in the middle of its turn. */
  const takeUp = (protocol) => {
    const taken = waiting.filter(({ uuid, priority }) => uuid !== undefined && priority !== "later");
    for (const one of taken) {
      waiting.splice(waiting.indexOf(one), 1);
      transcript.interject(one.uuid, one.content);
      if (replays) protocol.replay(one.content, one.uuid);
    }
    return taken.map(({ content }) => textOf(content));
  };

  const run = async (content, { deferred = null, uuid, interruptions = 0 } = {}) => {
    const { promise: interrupted, resolve: interrupt } = Promise.withResolvers();
    const turn = { opened: false, deaf: false, cut: false, paid: false, interrupt };
    current = turn;
    if (deferred === null) number += 1;
    const write = (value) => {
      if (turn.cut) throw over;
      writeLine(value);
    };
    const cost = () => {
      if (!turn.paid) spent += price;
      turn.paid = true;
      return Number(spent.toFixed(4));
    };
    const protocol = createProtocol({
      session: transcript.session,
      model: args.model,
      transcript,
      write,
      cost,
    });
    const done = play({ protocol, content, turn, deferred, uuid, interruptions });
    const how = await Promise.race([done, interrupted.then(() => over)]);
    if (how === over) {
      // Whatever the scenario still does is not heard any more.
      turn.cut = true;
      asking.cancel();
      done.catch((error) => {
        if (error !== over) throw error;
      });
      const last = createProtocol({
        session: transcript.session,
        model: args.model,
        transcript,
        cost: () => spent,
      });
      if (!turn.opened) last.init();
      if (turn.isCutOff) last.cutOff();
      else last.interrupted();
    }
    lastCode = how === over ? 1 : (how ?? 0);
    current = null;
    next();
  };

  const play = async ({ protocol, content, turn, deferred, uuid, interruptions }) => {
    const prompt = textOf(content);
    const { name, options } = parseTask(prompt);
    if (deferred !== null) await asking.ready();
    else if (interruptions === 0) {
      record(prompt);
      transcript.add("user", prompt, uuid);
    }
    turn.deaf = options.ignoreInterrupt === true;
    const scenario = await findScenario(name);
    const init = () => {
      turn.opened = true;
      protocol.init();
      if (replays && uuid !== undefined) protocol.replay(content, uuid);
      if (options.dirt) {
        writeFileSync("dirt.txt", "dirt\n");
        protocol.tool("Write", { file_path: join(process.cwd(), "dirt.txt") }, "File created");
      }
      if (options.plan) leavePlan(options.plan, prompt);
      while (options.begins && !existsSync(options.begins)) sleep(50);
      if (options.ms) sleep(options.ms);
    };
    const { report } = options;
    const reported = report && { structured_output: report, result: JSON.stringify(report) };
    return await scenario({
      ...protocol,
      result: (more = {}) => protocol.result({ ...more, ...reported }),
      init,
      options,
      prompt,
      content,
      args,
      asking,
      deferred,
      /** Ends the turn, whose call is asked about again by a process that resumes the session. */
      defer: (call) => {
        transcript.note({ ...call, prompt });
        const { id, input } = call;
        protocol.result({
          result: "",
          stop_reason: "tool_deferred",
          terminal_reason: "tool_deferred",
          deferred_tool_use: { id, name: call.name, input },
        });
        return null;
      },
      takeUp: () => takeUp(protocol),
      /** How often this turn was interrupted before. */
      interruptions,
      noteInterrupted: transcript.noteInterrupted,
      settle: (content) => deferred && transcript.note(deferred, content),
      turnNumber: number,
      earlierPrompts: transcript.earlierPrompts + number - 1,
      ignoreInterrupt: () => (turn.deaf = true),
    });
  };

  return {
    number: () => number,
    /** Goes on with the turn whose call was deferred. */
    resume: () => {
      const { deferred } = transcript;
      void run([{ type: "text", text: deferred.prompt }], { deferred });
    },
    add: (content, { uuid, priority } = {}) => {
      const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
      // Goes on with the turn whose request was refused.
      if (textOf(blocks) === "Continue." && transcript.interrupted !== null) {
        const { prompt, times } = transcript.interrupted;
        return void run([{ type: "text", text: prompt }], { interruptions: times });
      }
      waiting.push({ content: blocks, uuid, priority });
      if (priority === "now" && current !== null && !current.deaf) {
        current.isCutOff = true;
        current.interrupt();
      }
      next();
    },
    /** Whether it was waiting. */
    cancel: (id) => {
      const at = waiting.findIndex(({ uuid }) => uuid === id);
      if (at >= 0) waiting.splice(at, 1);
      return at >= 0;
    },
    /** False: the scenario does not listen. Nothing happens between turns. */
    interrupt: () => {
      if (current?.deaf) return false;
      current?.interrupt();
      return true;
    },
    noMore: () => {
      ended = true;
      next();
    },
  };
};

const rankOf = ({ priority = "next" }) => ["now", "next", "later"].indexOf(priority);

const textOf = (content) => content.map((block) => block.text ?? "").join("");

/** What an interactive session of the real one leaves in its configuration directory. */
const leavePlan = (name, prompt) => {
  const config = process.env.CLAUDE_CONFIG_DIR;
  mkdirSync(join(config, "plans"), { recursive: true });
  writeFileSync(join(config, "plans", `${name}.md`), `# Plan for ${prompt}\n`);
  const entry = { display: prompt, pastedContents: {}, timestamp: Date.now(), project: process.cwd() };
  appendFileSync(join(config, "history.jsonl"), `${JSON.stringify(entry)}\n`);
};

/** Nothing of the process goes on meanwhile. */
const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
