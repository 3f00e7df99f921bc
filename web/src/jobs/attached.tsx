import { useEffect, useRef } from "react";
import { fileLimits } from "../../../src/contract/run-options.ts";
import { bytes } from "../../../src/view/quantities.ts";

type Props = { files: readonly File[]; change: (files: readonly File[]) => void };

/** Files that go with a task: chosen here, dropped on the form or pasted into it. */
export const Attached = ({ files, change }: Props) => {
  const input = useRef<HTMLInputElement>(null);
  // The browser would leave the page for a file that is dropped beside the form.
  useEffect(() => {
    const listening = new AbortController();
    for (const event of ["dragover", "drop"])
      window.addEventListener(event, (dropped) => dropped.preventDefault(), listening);
    return () => listening.abort();
  }, []);
  return (
    <div className="field wide">
      <div className="row">
        <button type="button" onClick={() => input.current?.click()}>
          Attach files
        </button>
        <span className="faint">or drop or paste them here</span>
      </div>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={({ target }) => {
          change(withFiles(files, target.files ?? []));
          target.value = "";
        }}
      />
      <ul className="plain">
        {files.map((file, nth) => (
          <li key={`${nth} ${file.name}`} className="row">
            <span className="mono grow">{file.name}</span>
            <span className="faint">{bytes(file.size)}</span>
            <button
              type="button"
              className="quiet"
              onClick={() => change(files.filter((other) => other !== file))}
            >
              Remove<span className="visually-hidden"> {file.name}</span>
            </button>
          </li>
        ))}
      </ul>
      <p className="fault">{tooMuch(files)}</p>
    </div>
  );
};

/** What the service refuses while the bytes are still sent; null: nothing. */
export const tooMuch = (files: readonly File[]): string | null => {
  if (files.length > fileLimits.files) return `There can be at most ${fileLimits.files} files`;
  const size = files.reduce((sum, file) => sum + file.size, 0);
  return size > fileLimits.bytes ? `The files can have at most ${bytes(fileLimits.bytes)} together` : null;
};

/** Each with a name of its own: browsers call every picture that is pasted image.png. */
export const withFiles = (files: readonly File[], more: Iterable<File>): readonly File[] => {
  const all = [...files];
  for (const file of more) {
    const [, stem = file.name, extension = ""] = /^(.+)(\.[^.]*)$/.exec(file.name) ?? [];
    let { name } = file;
    for (let nth = 2; all.some((each) => each.name === name); nth += 1) name = `${stem}-${nth}${extension}`;
    all.push(name === file.name ? file : new File([file], name, { type: file.type }));
  }
  return all;
};

/** What is dropped or pasted, and taken; none: the browser does what it does with it. */
export const filesIn = (
  event: { preventDefault: () => void },
  data: DataTransfer | null,
): readonly File[] => {
  const files = [...(data?.files ?? [])];
  if (files.length > 0) event.preventDefault();
  return files;
};
