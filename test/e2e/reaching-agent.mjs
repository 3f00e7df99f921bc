#!/usr/bin/env node
// An agent that asks the proxy of its sandbox for the hosts that the prompt names (`reach: name:port name:port`), and
// answers with the status that it got for each; or reads a file (`read: /path`), and answers with what is in it.
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { parseArguments } from "../fake-agent/arguments.mjs";
import { createProtocol } from "../fake-agent/protocol.mjs";
import { openTranscript } from "../fake-agent/transcript.mjs";

const args = parseArguments(process.argv.slice(2));
const transcript = openTranscript(args);
const protocol = createProtocol({ session: transcript.session, model: args.model, transcript });

const ask = (path) =>
  new Promise((resolve, reject) => {
    const { hostname: host, port } = new URL(process.env.HTTP_PROXY);
    const asked = request({ host, port, method: "CONNECT", path });
    asked.on("connect", (answer, socket) => {
      socket.destroy();
      resolve(`${path} ${answer.statusCode}`);
    });
    asked.on("error", reject);
    asked.end();
  });

const read = (path) => {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    return error.code;
  }
};

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  input += chunk;
  const lines = input.split("\n");
  input = lines.pop();
  for (const line of lines) {
    const { type, message } = JSON.parse(line);
    if (type !== "user") continue;
    const { content } = message;
    const text = Array.isArray(content) ? content.map((part) => part.text).join("\n") : content;
    const names = /reach: (.*)/.exec(text)?.[1].split(" ") ?? [];
    const [, file] = /read: (.*)/.exec(text) ?? [];
    transcript.add("user", text);
    protocol.init();
    const told = file === undefined ? [] : [read(file)];
    for (const name of names) told.push(await ask(name));
    protocol.say(told.join("\n"));
    protocol.result({ result: told.join("\n") });
  }
}
