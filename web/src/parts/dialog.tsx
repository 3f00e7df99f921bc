import { useMutation } from "@tanstack/react-query";
import { useEffect, useId, useRef, type ComponentProps, type ReactNode, useState } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import { isComposing } from "./keys.ts";

type Props = {
  title: string;
  children: ReactNode;
  /** Absent: it cannot be closed. */
  onClose?: () => void;
  wide?: boolean;
};

/** A dialog over the page, which cannot be used meanwhile. Escape closes it. Its first field or button has the focus. */
export const Dialog = ({ title, children, onClose, wide = false }: Props) => {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    element?.querySelector<HTMLElement>("textarea, input, select, .primary")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={wide ? "wide" : ""}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
    >
      <header className="row between">
        <h2 id={heading}>{title}</h2>
        {onClose && (
          <button type="button" className="quiet" onClick={onClose}>
            <span className="visually-hidden">Close </span>
            <kbd>esc</kbd>
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
};

type FormProps = {
  /** What the button says. */
  yes: ReactNode;
  note?: ReactNode;
  action: { mutate: () => void; error: Error | null; isPending: boolean };
  /** In place of the message of the failure. */
  fault?: string | null | undefined;
  isReady?: boolean;
  className?: string;
  children: ReactNode;
} & Pick<ComponentProps<"form">, "onPaste" | "onDrop">;

/** Fields, what went wrong, and a button that sends them; Ctrl Enter does, too. */
export const Form = ({ yes, note, action, isReady = true, className = "", children, ...rest }: FormProps) => {
  const { fault = action.error?.message, ...handlers } = rest;
  const send = (event: { preventDefault: () => void }): void => {
    event.preventDefault();
    if (isReady && !action.isPending) action.mutate();
  };
  return (
    <form
      {...handlers}
      className={`stack ${className}`}
      onSubmit={send}
      onKeyDown={(event) => {
        if (event.key !== "Enter") return;
        // A field would send the form by itself.
        if (isComposing(event.nativeEvent)) event.preventDefault();
        else if (event.ctrlKey || event.metaKey) send(event);
      }}
    >
      {children}
      <p role="alert" className="fault wide">
        {fault}
      </p>
      <footer className="row wide">
        <span className="faint grow">{note}</span>
        <button type="submit" className="primary" disabled={!isReady || action.isPending}>
          {yes}
        </button>
      </footer>
    </form>
  );
};

type KeyFormProps = {
  label: string;
  /** The setting that has the keys. */
  setting: string;
  refused: string;
  /** Tries the key. @throws ClientError 401 or 403 for one that is refused */
  use: (key: string) => Promise<void>;
};

export const KeyForm = ({ label, setting, refused, use }: KeyFormProps) => {
  const [key, setKey] = useState("");
  const field = useId();
  const attempt = useMutation({ mutationFn: () => use(key), onError: () => setKey("") });
  const { error } = attempt;
  const isRefused = error instanceof ClientError && [401, 403].includes(error.status);
  return (
    <Form
      action={attempt}
      fault={error && (isRefused ? refused : `The key could not be tried: ${error.message}`)}
      yes="Use this key"
      isReady={key !== ""}
    >
      <label htmlFor={field}>{label}</label>
      <input
        id={field}
        type="password"
        autoComplete="off"
        spellCheck={false}
        value={key}
        onChange={({ target }) => setKey(target.value)}
        aria-invalid={error !== null}
        aria-describedby={`${field}-note`}
      />
      <p id={`${field}-note`} className="faint">
        Kept in this tab until you close it. The operator has set it in <code>{setting}</code>.
      </p>
    </Form>
  );
};
