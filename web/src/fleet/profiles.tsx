import { useQuery } from "@tanstack/react-query";
import { oneLine } from "../../../src/view/sanitise.ts";
import { Answer } from "../parts/states.tsx";
import { client } from "../shell/service.ts";

export const Profiles = () => {
  const query = useQuery({
    queryKey: ["profiles"],
    queryFn: ({ signal }) => client().list_profiles({}, { signal }),
  });
  return (
    <section aria-labelledby="profiles">
      <h2 id="profiles">Profiles</h2>
      <Answer query={query}>
        {({ profiles }) => (
          <div className="scrolled">
            <table className="ledger stacked" aria-labelledby="profiles">
              <thead>
                <tr>
                  <th scope="col">Profile</th>
                  <th scope="col">Model</th>
                  <th scope="col">What it is for</th>
                  <th scope="col">Source</th>
                </tr>
              </thead>
              <tbody>
                {profiles.map((each) => (
                  <tr key={each.name}>
                    <th scope="row" className="mono">
                      {oneLine(each.name)}
                    </th>
                    <td>{oneLine(each.model)}</td>
                    <td className="why">
                      {each.error === null ? (
                        oneLine(each.description)
                      ) : (
                        <span className="fault">{oneLine(each.error)}</span>
                      )}
                    </td>
                    <td className="mono">{oneLine(each.source)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Answer>
    </section>
  );
};
