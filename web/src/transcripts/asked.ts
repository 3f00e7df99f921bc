import { useAddress } from "../parts/address.ts";

export const roles = ["user", "assistant", "system", "summary"] as const;

/** What is searched for, as the address has it. Empty: not narrowed; without words the newest sessions are listed. */
export type Asked = { q: string; project: string; role: (typeof roles)[number] | ""; since: string };

const read = (value: (name: string) => string): Asked => {
  const role = roles.find((each) => each === value("role")) ?? "";
  return { q: value("q"), project: value("project"), role, since: value("since") };
};

export const useAsked = () => useAddress(read);
