import type { ReactNode } from "react";

type Props = {
  isOpen: boolean;
  toggle: (isOpen: boolean) => void;
  summary: ReactNode;
  children: ReactNode;
};

/** What is folded is made only when it is opened. */
export const Fold = ({ isOpen, toggle, summary, children }: Props) => (
  <details open={isOpen} onToggle={({ currentTarget: { open } }) => open !== isOpen && toggle(open)}>
    <summary>{summary}</summary>
    {isOpen && children}
  </details>
);
