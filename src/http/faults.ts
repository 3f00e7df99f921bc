import type { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { nearest } from "../lib/nearest.ts";
import { lenient } from "./lenient.ts";

type RawIssue = z.core.$ZodRawIssue;
type Issue = z.core.$ZodIssue;

type Names = {
  /** Fields that this request may have. */
  known: readonly string[];
  /** Given fields that the schema has but this request may not. */
  extra: readonly string[];
};

/**
 * `given` as the input of an operation, its defaults filled in.
 * @throws ServiceError invalid_request that names every fault
 */
export const checkedInput = <Input extends z.ZodObject>(
  input: Input,
  given: Record<string, unknown>,
  { known, extra }: Names,
): z.output<Input> => {
  const result = input.safeParse(lenient(input, given), { error: faultMessage });
  if (result.success && extra.length === 0) return result.data;
  const extraIssue: Issue[] =
    extra.length > 0
      ? [{ code: "unrecognized_keys", keys: [...extra], path: [], message: "", input: given }]
      : [];
  throw faultsOf([...extraIssue, ...(result.error?.issues ?? [])], known);
};

/** One sentence for all faults of an input, each naming its field: `limit: must be at most 1000; taks: is not known …`. */
const faultsOf = (issues: readonly Issue[], known: readonly string[]): ServiceError =>
  new ServiceError(
    "invalid_request",
    firstOfEach(issues)
      .flatMap((issue) => sentences(issue, known))
      .join("; "),
  );

/** The first fault of each field: the others follow from it. */
const firstOfEach = (issues: readonly Issue[]): Issue[] => {
  const byField = new Map<string, Issue>();
  for (const issue of issues) {
    const field = issue.code === "unrecognized_keys" ? `unknown ${issue.keys.join()}` : issue.path.join(".");
    if (!byField.has(field)) byField.set(field, issue);
  }
  return [...byField.values()];
};

const sentences = (issue: Issue, known: readonly string[]): string[] => {
  if (issue.code === "unrecognized_keys" && issue.path.length > 0)
    return issue.keys
      .slice(0, maxUnknownNames)
      .map((key) => `${issue.path.join(".")}.${key.slice(0, 100)}: is not known`);
  if (issue.code === "unrecognized_keys")
    return issue.keys.slice(0, maxUnknownNames).map((key) => unknownName(key, known));
  return [`${issue.path.join(".")}: ${issue.message}`];
};

const maxUnknownNames = 10;

/** The message for an unknown name, with the name that was probably meant. */
export const unknownName = (name: string, known: readonly string[]): string => {
  const meant = nearest(name, known);
  const way =
    meant !== undefined
      ? `did you mean ${meant}?`
      : known.length > 0
        ? `known are ${known.join(", ")}`
        : "none are known here";
  return `${name.slice(0, 100)}: is not known, ${way}`;
};

/** Zod's error map, for schemas without a message of their own. */
export const faultMessage = (issue: RawIssue): string => {
  switch (issue.code) {
    case "invalid_type":
      return issue.input === undefined
        ? "is required"
        : `must be ${typeNames[typeOf(issue)] ?? typeOf(issue)}`;
    case "invalid_value":
      return `must be one of ${choices(issue.values)}`;
    case "invalid_union":
      return `must be one of ${choices(issue.errors.flat().flatMap((inner) => (inner.code === "invalid_value" ? inner.values : [])))}`;
    case "too_small":
      return `must ${unit(issue.origin)} at least ${issue.minimum}${counted(issue.origin)}`;
    case "too_big":
      return `must ${unit(issue.origin)} at most ${issue.maximum}${counted(issue.origin)}`;
    case "custom":
    case "invalid_element":
    case "invalid_format":
    case "invalid_key":
    case "not_multiple_of":
    case "unrecognized_keys":
    default:
      return "is not valid";
  }
};

/** A text in the place of a whole number is only missed as a number. */
const typeOf = ({ expected, inst }: RawIssue & { code: "invalid_type" }): string =>
  expected === "number" && inst !== undefined && "format" in inst._zod.def ? "int" : expected;

const typeNames: Record<string, string> = {
  string: "a string",
  int: "a whole number",
  number: "a number",
  boolean: "true or false",
  object: "an object",
  array: "an array",
};

const choices = (values: readonly unknown[]): string => values.filter((value) => value !== "").join(", ");

const unit = (origin: string): string => (origin === "string" || origin === "array" ? "have" : "be");

const counted = (origin: string): string =>
  origin === "string" ? " characters" : origin === "array" ? " items" : "";
