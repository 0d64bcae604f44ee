"""What an apply and a deletion do, computed from what there is."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pallas_common.protocol.agent.source import AgentSource
from pallas_registry.deployment.model import Agent, Deployment
from pallas_registry.resources.assembly import Assembly, assemble
from pallas_registry.resources.changes import ABSENT, AppliedFile, Change, Changes, plan_apply, plan_deletion
from pallas_registry.resources.files import KeptResources
from pallas_registry.resources.model import ResourceId
from pallas_registry.resources.text import to_document
from support.supervisor.declared import VALUE, agent, document, file, llm, secret

DEPLOYER, SMALL, KEYS = (
    ResourceId("agent", "deployer"),
    ResourceId("llm", "small"),
    ResourceId("secret", "keys"),
)
_UIDS = map(str, itertools.count(1))
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def change(now: str = NOW, owner: str = "ada") -> Change:
    return Change(owner, now, lambda: next(_UIDS))


def nothing() -> Assembly:
    helper = Agent(
        name="helper", module=AgentSource("module", "m"), port=9000, title="H", description="It helps", line=7
    )
    base = Deployment(
        name="demo",
        agents={"helper": helper},
        namespace="local.demo",
        bind="127.0.0.1",
        path=Path("/srv/agents.yaml"),
    )
    return assemble(base, KeptResources(key=b"k" * 32))


def usual() -> Assembly:
    """A secret, a model and an agent."""
    made = plan_apply([file("all.yaml", secret(), llm(), agent())], nothing(), change())
    assert words(made) == {"secret/keys": "created", "llm/small": "created", "agent/deployer": "created"}
    return made.after


def words(changes: Changes) -> dict[str, str]:
    return {str(each.resource): each.word for each in changes.outcomes}


def said(changes: Changes, resource: ResourceId) -> str:
    [outcome] = [each for each in changes.outcomes if each.resource == resource]
    return "\n".join(map(str, outcome.problems))


def test_what_is_new_is_noted_and_deployed() -> None:
    made = plan_apply([file("all.yaml", agent(), llm(), secret())], nothing(), change())
    noted = made.after.resources[DEPLOYER].metadata
    assert noted is not None
    assert (noted.owner, noted.version, noted.created_at, noted.updated_at) == ("ada", 1, NOW, NOW)
    assert len({each.metadata.uid for each in made.put if each.metadata}) == 3
    assert list(made.after.deployment.agents) == ["helper", "deployer"]
    assert made.gone == ()


def test_what_says_the_same_is_unchanged_however_it_is_written() -> None:
    before = usual()
    again = plan_apply(
        [file("all.yaml", secret(), llm(), agent(llm={"name": "small"}))], before, change(LATER)
    )
    assert set(words(again).values()) == {"unchanged"}
    assert (again.put, again.gone) == ((), ())
    assert again.after is before


def test_what_is_shown_can_be_applied_and_changes_nothing() -> None:
    import json

    before = usual()
    shown = [json.dumps(to_document(each, digest=before.kept.digest)) for each in before.resources.values()]
    assert VALUE not in "".join(shown)
    again = plan_apply([file("shown.yaml", *shown)], before, change(LATER))
    assert set(words(again).values()) == {"unchanged"}


def test_what_is_changed_keeps_its_uid_and_owner() -> None:
    before = usual()
    made = plan_apply([file("a.yaml", agent(description="It does more"))], before, change(LATER, "bob"))
    assert words(made) == {"agent/deployer": "configured"}
    old, new = before.resources[DEPLOYER].metadata, made.after.resources[DEPLOYER].metadata
    assert old is not None
    assert new is not None
    assert (new.uid, new.owner, new.created_at) == (old.uid, "ada", NOW)
    assert (new.version, new.updated_at) == (2, LATER)
    assert [each.id for each in made.put] == [DEPLOYER]


def test_a_file_is_applied_whole_or_not_at_all_and_others_are() -> None:
    files = [
        file("bad.yaml", secret("others", A="12345678"), agent("broken", colour="red")),
        file("good.yaml", secret(), llm(), agent()),
        file("needs-bad.yaml", llm("large", apiKeyRef="others/A")),
    ]
    made = plan_apply(files, nothing(), change())
    assert words(made) == {
        "secret/others": "refused",
        "secret/keys": "created",
        "llm/small": "created",
        "agent/deployer": "created",
        "llm/large": "refused",
    }
    assert [str(problem) for problem in made.problems if "colour" in str(problem)]
    assert "is left out with the rest of its file" in said(made, ResourceId("secret", "others"))
    assert "needs-bad.yaml:1: spec.apiKeyRef: there is no secret 'others'" in said(
        made, ResourceId("llm", "large")
    )
    assert sorted(made.after.resources) == sorted([DEPLOYER, SMALL, KEYS])


def test_what_refers_to_a_refused_file_is_refused_down_to_the_last() -> None:
    files = [
        file("1.yaml", agent("first", llm="large", run={"depends_on": ["second"]})),
        file("2.yaml", llm("large", apiKeyRef="others/A")),
        file("3.yaml", secret("others", A="12345678"), llm("nowhere", apiKeyRef="gone/A")),
        file("4.yaml", secret(), llm()),
    ]
    made = plan_apply(files, nothing(), change())
    assert {name for name, word in words(made).items() if word == "created"} == {"secret/keys", "llm/small"}


def test_what_is_given_twice_is_refused_where_it_is_second() -> None:
    files = [file("same.yaml", secret(), llm()), file("same.yaml", llm(model="other"))]
    made = plan_apply(files, nothing(), change())
    assert [each.word for each in made.outcomes] == ["created", "created", "refused"]
    assert "llm/small is given twice, first in same.yaml" in str(made.outcomes[2].problems[0])


def test_an_agent_of_agents_yaml_is_changed_there() -> None:
    made = plan_apply([file("all.yaml", secret(), llm(), agent("helper"))], nothing(), change())
    [outcome] = [each for each in made.outcomes if each.resource.name == "helper"]
    assert (outcome.word, outcome.reason) == ("refused", "conflict")
    assert "agents.yaml:7" in str(outcome.problems[0])
    assert "edit /srv/agents.yaml, line 7" in str(outcome.problems[0])


def test_a_version_is_held_against_the_one_that_is_there() -> None:
    before = usual()
    version = before.resources[DEPLOYER].resource_version
    after = plan_apply([file("a.yaml", agent(description="It does more"))], before, change(LATER)).after
    mine = document("agent", "deployer", resource_version=version, description="Mine", llm="small")
    assert words(plan_apply([file("mine.yaml", mine)], before, change())) == {"agent/deployer": "configured"}
    made = plan_apply([file("mine.yaml", mine)], after, change())
    assert made.outcomes[0].reason == "conflict"
    assert "has been changed since" in said(made, DEPLOYER)
    assert "another spec.description;" in said(made, DEPLOYER)
    theirs = document("agent", "deployer", resource_version=version, description="It does more", llm="small")
    assert words(plan_apply([file("same.yaml", theirs)], after, change())) == {"agent/deployer": "unchanged"}


def test_a_version_of_what_is_gone_is_refused() -> None:
    mine = document("secret", "keys", resource_version="0" * 16, data={"API_KEY": VALUE})
    assert "is not there any more" in said(plan_apply([file("a.yaml", mine)], nothing(), change()), KEYS)


def test_a_whole_document_of_what_is_gone_is_made_anew() -> None:
    before = usual()
    shown = [json.dumps(to_document(each, digest=before.kept.digest)) for each in before.resources.values()]
    with_agent = file("backup.yaml", *shown)
    left = plan_deletion([DEPLOYER], before, change()).after
    made = plan_apply([with_agent], left, change(LATER))
    assert words(made)["agent/deployer"] == "created"
    assert {word for id_, word in words(made).items() if id_ != "agent/deployer"} == {"unchanged"}
    [outcome] = [each for each in made.outcomes if each.resource == DEPLOYER]
    assert "passed over" in outcome.note
    gone, anew = before.resources[DEPLOYER].metadata, made.after.resources[DEPLOYER].metadata
    assert gone is not None
    assert anew is not None
    assert anew.uid != gone.uid
    condition = replace(with_agent, is_conditional=True)
    assert "is not there any more" in said(plan_apply([condition], left, change()), DEPLOYER)


def test_what_is_only_to_be_created_is_refused_where_it_is() -> None:
    given = file("a.yaml", secret())
    new = AppliedFile(name="a.yaml", resources=given.resources, versions={KEYS: ABSENT})
    assert words(plan_apply([new], nothing(), change())) == {"secret/keys": "created"}
    assert "secret/keys is there already" in said(plan_apply([new], usual(), change()), KEYS)


def test_a_digest_of_another_value_is_refused() -> None:
    before = usual()
    wrong = document("secret", "keys", data={"API_KEY": {"digest": f"hmac-sha256:{'0' * 64}"}})
    made = plan_apply([file("a.yaml", wrong)], before, change())
    assert words(made) == {"secret/keys": "refused"}
    assert "write the value itself" in said(made, KEYS)


def test_nothing_that_works_stops_working() -> None:
    made = plan_apply([file("a.yaml", secret(OTHER="12345678"))], usual(), change())
    assert words(made) == {"secret/keys": "refused"}
    assert made.outcomes[0].reason == "conflict"
    assert "llm/small would not work any more" in said(made, KEYS)
    assert made.put == ()


def test_what_did_not_work_before_is_in_nobodys_way() -> None:
    made = plan_apply([file("all.yaml", secret(), llm(), agent())], nothing(), change())
    left = assemble(
        made.after.base,
        KeptResources(resources=made.after.resources.changed(gone=[KEYS]), key=made.after.kept.key),
    )
    assert set(left.disabled) == {SMALL, DEPLOYER}
    assert list(left.deployment.agents) == ["helper"]
    other = plan_apply([file("b.yaml", secret("others", A="12345678"))], left, change())
    assert words(other) == {"secret/others": "created"}
    again = plan_apply([file("c.yaml", secret())], left, change())
    assert words(again) == {"secret/keys": "created"}
    assert list(again.after.deployment.agents) == ["helper", "deployer"]
    assert "there is no secret 'keys'" in said(plan_apply([file("d.yaml", llm())], left, change()), SMALL)


def test_pruning_removes_what_is_in_no_file() -> None:
    made = plan_apply([file("a.yaml", secret(), llm())], usual(), change(), prune=True)
    assert words(made) == {"secret/keys": "unchanged", "llm/small": "unchanged", "agent/deployer": "pruned"}
    assert made.gone == (DEPLOYER,)
    assert list(made.after.deployment.agents) == ["helper"]


@pytest.mark.parametrize("bad", [agent("broken", colour="red"), agent()])
def test_where_a_file_is_refused_nothing_is_pruned(bad: str) -> None:
    """The second one loses its model by the pruning itself."""
    made = plan_apply([file("a.yaml", bad)], usual(), change(), prune=True)
    assert made.gone == ()
    assert "pruned" not in words(made).values()


def test_what_is_used_is_not_deleted() -> None:
    before = usual()
    for id_, user in ((SMALL, "agent/deployer"), (KEYS, "llm/small")):
        made = plan_deletion([id_], before, change())
        assert (words(made), made.gone) == ({str(id_): "refused"}, ())
        assert f"is used by {user}" in said(made, id_)
    made = plan_deletion([DEPLOYER], before, change())
    assert (words(made), made.gone) == ({"agent/deployer": "deleted"}, (DEPLOYER,))
    assert words(plan_deletion([SMALL], made.after, change())) == {"llm/small": "deleted"}


def test_a_deleted_project_leaves_its_agents() -> None:
    project = document("project", "platform", prompts=[{"name": "style", "text": "Be short."}])
    before = plan_apply([file("a.yaml", project, agent(project="platform"))], usual(), change()).after
    assert "Be short." in before.deployment.agents["deployer"].definition.instruction  # type: ignore[union-attr]
    made = plan_deletion([ResourceId("project", "platform")], before, change(LATER))
    assert words(made) == {"project/platform": "deleted", "agent/deployer": "configured"}
    left = made.after.resources[DEPLOYER]
    assert "project" not in left.spec
    assert left.metadata is not None
    assert (left.metadata.version, left.metadata.updated_at) == (3, LATER)
    assert "Be short." not in made.after.deployment.agents["deployer"].definition.instruction  # type: ignore[union-attr]


def test_a_deletion_may_ask_for_a_version() -> None:
    before = usual()
    assert words(plan_deletion([DEPLOYER], before, change(), {DEPLOYER: "0" * 16})) == {
        "agent/deployer": "refused"
    }
    version = before.resources[DEPLOYER].resource_version
    assert words(plan_deletion([DEPLOYER], before, change(), {DEPLOYER: version})) == {
        "agent/deployer": "deleted"
    }


def test_an_agent_of_agents_yaml_is_deleted_there_and_what_is_not_there_nowhere() -> None:
    helper = ResourceId("agent", "helper")
    assert "edit /srv/agents.yaml, line 7" in said(plan_deletion([helper], usual(), change()), helper)
    nobody = ResourceId("agent", "nobody")
    made = plan_deletion([nobody], usual(), change())
    assert (words(made), made.gone) == ({"agent/nobody": "missing"}, ())
    assert "there is no agent 'nobody'" in said(made, nobody)


def test_several_are_deleted_together() -> None:
    before = usual()
    made = plan_deletion([KEYS, SMALL, DEPLOYER, DEPLOYER], before, change())
    assert words(made) == dict.fromkeys(("secret/keys", "llm/small", "agent/deployer"), "deleted")
    assert made.gone == (KEYS, SMALL, DEPLOYER)
    assert set(made.after.resources) == set()
    assert "deployer" not in made.after.deployment.agents


def test_what_one_that_stays_needs_stays_too() -> None:
    """The agent has changed since, so that its model and the model's key are needed."""
    other, nobody = ResourceId("agent", "other"), ResourceId("agent", "nobody")
    before = plan_apply([file("a.yaml", agent("other"))], usual(), change()).after
    made = plan_deletion([KEYS, SMALL, DEPLOYER, other, nobody], before, change(), {DEPLOYER: "0" * 16})
    assert words(made) == {
        **dict.fromkeys(("secret/keys", "llm/small", "agent/deployer"), "refused"),
        "agent/other": "deleted",
        "agent/nobody": "missing",
    }
    assert "llm/small: is used by agent/deployer;" in said(made, SMALL)
    assert (made.gone, set(made.after.resources)) == ((other,), {KEYS, SMALL, DEPLOYER})


def test_what_cannot_be_read_can_be_deleted_and_applied_again() -> None:
    from pallas_common.problems import Problem

    problem = Problem("deployer.yaml", 3, "", "not valid YAML", "")
    there = usual()
    kept = KeptResources(
        resources=there.resources.changed(gone=[DEPLOYER]),
        problems={DEPLOYER: (problem,)},
        key=there.kept.key,
    )
    before = assemble(there.base, kept)
    assert before.disabled == {DEPLOYER: (problem,)}
    assert words(plan_deletion([DEPLOYER], before, change())) == {"agent/deployer": "deleted"}
    made = plan_apply([file("a.yaml", agent())], before, change())
    assert (words(made), made.after.disabled) == ({"agent/deployer": "configured"}, {})
    assert plan_apply([file("a.yaml", secret(), llm())], before, change(), prune=True).gone == (DEPLOYER,)
