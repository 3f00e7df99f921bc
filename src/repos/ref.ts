import { ServiceError } from "../contract/errors.ts";

/**
 * Whether git would take this as the name of a branch: the rules of `git check-ref-format --branch`, in process because
 * every submission asks, plus a bound on the length.
 */
export const isRefName = (ref: string): boolean =>
  ref !== "" &&
  ref !== "@" &&
  ref !== "HEAD" &&
  Buffer.byteLength(ref) <= 200 &&
  ref.isWellFormed() &&
  !forbidden.test(ref) &&
  !hasControl(ref) &&
  !ref.startsWith("-") &&
  !ref.endsWith(".") &&
  ref.split("/").every((part) => part !== "" && !part.startsWith(".") && !part.endsWith(".lock"));

const forbidden = /[ ~^:?*[\\]|\.\.|@\{/;

/** The control characters of ASCII only: git takes those beyond it. */
const hasControl = (ref: string): boolean => Buffer.from(ref).some((byte) => byte < 0x20 || byte === 0x7f);

/** @throws ServiceError `invalid_ref` */
export const checkRef = (ref: string): void => {
  if (isRefName(ref)) return;
  const shown = ref.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 100);
  throw new ServiceError(
    "invalid_ref",
    `"${shown}" is not a name that git takes for a branch or tag. Give one like main, release/1.2 or v3.0.`,
  );
};
