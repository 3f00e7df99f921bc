import { item } from "./item.ts";

/** What the reference reads of a JSON schema. */
export type Schema = {
  $ref?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: string[];
  const?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
};

type Find = (ref: string) => Schema;

/** An entry for each field: name, kind, bounds, default, meaning; the fields of an object below its own entry. */
export const fields = (schema: Schema, find: Find, depth = 0): string[] =>
  Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    fieldLines(name, field, schema.required?.includes(name) === true, find, depth),
  );

export const fieldLines = (
  name: string,
  field: Schema,
  required: boolean,
  find: Find,
  depth = 0,
): string[] => {
  const whole = field.$ref === undefined ? field : { ...find(field.$ref), ...field };
  const { description = "", default: value } = whole;
  const about = [
    kindOf(whole, find),
    ...(required ? ["required"] : []),
    ...(isShown(value) ? [`default \`${JSON.stringify(value)}\``] : []),
  ].join(", ");
  const entry = item(
    `\`${name}\` (${about})${description === "" ? "" : `: ${description.replaceAll("<", "&lt;")}`}`,
  );
  const inner = depth === 0 && whole.properties !== undefined ? fields(whole, find, 1) : [];
  return [entry, ...inner.map((line) => `  ${line.replaceAll("\n", "\n  ")}`)];
};

const isShown = (value: unknown): boolean =>
  ["string", "number", "boolean"].includes(typeof value) && value !== "";

const kindOf = (schema: Schema, find: Find): string => {
  if (schema.$ref !== undefined) return kindOf(find(schema.$ref), find);
  const { enum: values, anyOf, oneOf, items, type } = schema;
  if (values !== undefined)
    return values
      .filter((value) => value !== "")
      .map((value) => `\`${value}\``)
      .join(" or ");
  if (schema.const !== undefined) return `\`${schema.const}\``;
  const some = anyOf ?? oneOf;
  if (some !== undefined)
    return [...new Set(some.map((each) => kindOf(each, find)).filter((kind) => kind !== ""))].join(" or ");
  if (items !== undefined && type !== "string") {
    return `list of ${kindOf(items, find)}${schema.maxItems === undefined ? "" : `, at most ${schema.maxItems}`}`;
  }
  const kind = [type ?? "any"]
    .flat()
    .filter((each) => each !== "null")
    .join(" or ");
  return `${kind}${boundsOf(schema)}`;
};

const boundsOf = ({ minimum, maximum, maxLength }: Schema): string => {
  const [low, high] = [
    minimum !== undefined && Math.abs(minimum) < Number.MAX_SAFE_INTEGER ? minimum : undefined,
    maximum !== undefined && Math.abs(maximum) < Number.MAX_SAFE_INTEGER ? maximum : undefined,
  ];
  if (low !== undefined && high !== undefined) return ` ${low} to ${high}`;
  if (low !== undefined) return ` from ${low}`;
  if (high !== undefined) return ` to ${high}`;
  return maxLength === undefined ? "" : ` of at most ${maxLength} characters`;
};
