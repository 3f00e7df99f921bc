import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { DockerfileParser, type Copy, type Dockerfile, type From, type Instruction } from "dockerfile-ast";
import { deploy } from "./rendered.ts";

export const readContainerfile = (): Promise<string> =>
  readFile(join(deploy, "container", "Containerfile"), "utf8");

const parsed = async (): Promise<Dockerfile> => DockerfileParser.parse(await readContainerfile());

/** Arguments of all instructions of this name, line breaks and comments taken out; of one stage, counted from 0, or of all. */
export const instructions = async (keyword: string, stage?: number): Promise<string[]> => {
  const all = (await parsed()).getInstructions();
  return inStages(all)
    .filter((one) => one.instruction.getKeyword() === keyword && (stage === undefined || one.stage === stage))
    .map(({ instruction }) => flat(instruction));
};

export const froms = async (): Promise<From[]> => (await parsed()).getFROMs();

/** What is copied out of the repository. */
export const copiedFromRepository = async (): Promise<{ sources: string[]; target: string }[]> =>
  (await parsed())
    .getCOPYs()
    .filter((copy: Copy) => copy.getFromFlag() === null)
    .map((copy) => {
      const words = copy.getArguments().map((argument) => argument.getValue());
      return { sources: words.slice(0, -1), target: words.at(-1) ?? "" };
    });

/** The variables that the image sets. */
export const imageEnvironment = async (): Promise<Record<string, string>> => {
  const stages = (await parsed()).getENVs();
  return Object.fromEntries(
    stages
      .flatMap((env) => env.getProperties())
      .map((property) => [property.getName(), property.getValue() ?? ""]),
  );
};

const inStages = (all: Instruction[]): { instruction: Instruction; stage: number }[] => {
  let stage = -1;
  return all.map((instruction) => {
    if (instruction.getKeyword() === "FROM") stage += 1;
    return { instruction, stage };
  });
};

const flat = (instruction: Instruction): string =>
  (instruction.getRawArgumentsContent() ?? "").replace(/\\\n/g, " ").replace(/\s+/g, " ").trim();
