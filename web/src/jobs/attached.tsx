import { useRef } from "react";
import { bytes } from "../../../src/view/quantities.ts";

type Props = { files: readonly File[]; change: (files: readonly File[]) => void };

/** Files that go with a task: chosen here, dropped on the form or pasted into it. */
export const Attached = ({ files, change }: Props) => {
  const input = useRef<HTMLInputElement>(null);
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
          change([...files, ...(target.files ?? [])]);
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
    </div>
  );
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
