import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import type { AnswerInput } from "../../../src/contract/answer.ts";
import type { Question, Waiting } from "../../../src/contract/job.ts";
import { oneLine, sanitise } from "../../../src/view/sanitise.ts";
import { Form } from "../parts/dialog.tsx";
import { Markdown } from "../parts/markdown.tsx";
import { client } from "../shell/service.ts";
import { useShortcut } from "../shell/shortcuts.tsx";
import { setJob } from "./follow.ts";

type Said = Partial<Omit<AnswerInput, "job_id" | "id">>;

/** What the job asks, as a form. */
export const Asked = ({ id, waiting }: { id: string; waiting: Waiting }) => {
  const answer = useMutation({
    mutationFn: (said: Said) => client().answer_job({ job_id: id, id: waiting.id, ...said }),
    onSuccess: ({ job }) => setJob(job),
  });
  const form = useRef<HTMLElement>(null);
  useShortcut("a", "Answer the agent", () =>
    form.current?.querySelector<HTMLElement>("input, textarea")?.focus(),
  );
  return (
    <section ref={form} className="asked" aria-label="The agent asks">
      {waiting.plan === null ? (
        <QuestionsForm waiting={waiting} answer={answer} />
      ) : (
        <PlanForm waiting={waiting} answer={answer} plan={waiting.plan} />
      )}
    </section>
  );
};

type Props = {
  waiting: Waiting;
  answer: { mutate: (said: Said) => void; error: Error | null; isPending: boolean };
};

/** What is chosen and written, question by question. */
type Drafts = readonly { chosen: readonly string[]; own: string }[];

const QuestionsForm = ({ waiting: { questions, until }, answer }: Props) => {
  const [drafts, setDrafts] = useState<Drafts>(() => questions.map(() => ({ chosen: [], own: "" })));
  const values = questions.map((question, at) => valueOf(question, drafts[at]));
  const answers = Object.fromEntries(questions.map(({ question }, at) => [question, values[at] ?? ""]));
  const set = (changed: number, change: Partial<Drafts[number]>): void =>
    setDrafts(drafts.map((draft, at) => (at === changed ? { ...draft, ...change } : draft)));
  return (
    <Form
      yes="Answer"
      action={{ ...answer, mutate: () => answer.mutate({ answers }) }}
      isReady={values.every((value) => value.length > 0)}
      note={<Until at={until} />}
    >
      {questions.map((question, at) => (
        <QuestionFields
          key={at}
          name={`question-${at}`}
          question={question}
          draft={drafts[at] ?? { chosen: [], own: "" }}
          change={(change) => set(at, change)}
        />
      ))}
    </Form>
  );
};

const valueOf = ({ multi_select: isMulti }: Question, draft: Drafts[number] | undefined) => {
  const own = draft?.own.trim() ?? "";
  const all = [...(draft?.chosen ?? []), own].filter(Boolean);
  return isMulti ? all : all.join(": ");
};

type FieldsProps = {
  name: string;
  question: Question;
  draft: Drafts[number];
  change: (change: Partial<Drafts[number]>) => void;
};

const QuestionFields = ({ name, question, draft: { chosen, own }, change }: FieldsProps) => {
  const { options, multi_select: isMulti } = question;
  const choose = (label: string, isChosen: boolean): void => {
    const others = isMulti ? chosen.filter((each) => each !== label) : [];
    change({ chosen: isChosen ? [...others, label] : others });
  };
  return (
    <fieldset className="stack">
      <legend className="words">{sanitise(question.question)}</legend>
      {options.map(({ label, description }, at) => (
        <label key={at} className="choice">
          <input
            type={isMulti ? "checkbox" : "radio"}
            name={name}
            checked={chosen.includes(label)}
            onChange={({ target }) => choose(label, target.checked)}
          />
          <span>
            {oneLine(label)} <span className="faint">{oneLine(description)}</span>
          </span>
        </label>
      ))}
      <label className="stack">
        {options.length > 0 ? "In your own words" : "Your answer"}
        <textarea
          rows={1}
          maxLength={20_000}
          value={own}
          onChange={({ target }) => change({ own: target.value })}
        />
      </label>
    </fieldset>
  );
};

const PlanForm = ({ waiting: { until }, plan, answer }: Props & { plan: string }) => {
  const [changed, setChanged] = useState(plan);
  const [feedback, setFeedback] = useState("");
  const approve = (): void =>
    answer.mutate({ approve: true, feedback, ...(changed !== plan && { plan: changed }) });
  return (
    <Form
      yes="Approve"
      action={{ ...answer, mutate: approve }}
      isReady={changed.trim() !== ""}
      note={
        <>
          <button
            type="button"
            disabled={feedback.trim() === "" || answer.isPending}
            onClick={() => answer.mutate({ approve: false, feedback })}
          >
            Send back
          </button>{" "}
          <button
            type="button"
            title="The job ends without the plan"
            disabled={answer.isPending}
            onClick={() => answer.mutate({ approve: false })}
          >
            Refuse
          </button>{" "}
          <Until at={until} />
        </>
      }
    >
      <h2>The agent's plan</h2>
      <Markdown text={plan} />
      <details>
        <summary>Change the plan</summary>
        <textarea
          rows={8}
          aria-label="The plan to go on by"
          value={changed}
          onChange={({ target }) => setChanged(target.value)}
        />
      </details>
      <label className="stack">
        Words for the agent; to send the plan back, what to do otherwise
        <textarea
          rows={1}
          maxLength={100_000}
          value={feedback}
          onChange={({ target }) => setFeedback(target.value)}
        />
      </label>
    </Form>
  );
};

const Until = ({ at }: { at: string }) => (
  <>
    The job waits until <time dateTime={at}>{new Date(at).toLocaleString()}</time>
  </>
);
