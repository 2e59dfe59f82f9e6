from shortlist.evaluate.example import worked_example


def test_the_example_tells_history_slate_stages_and_losses(world, recommender):
    cases = world.split().test
    told = worked_example(recommender, world, cases, 0, seed=0)
    assert told["user"] == world.users.id(int(cases.users[0]))
    assert told["history"][0]["item_id"] == world.items.id(int(world.events.items[cases.cuts[0] - 1]))
    assert [stage["name"] for stage in told["stages"]] == [
        stage.title for stage in recommender.pipeline.stages
    ]
    wanted = set(cases.relevant()[0].tolist())
    for one in told["items"]:
        assert one["wanted"] == (recommender.item_row(one["item_id"]) in wanted)
    assert len({one["dropped_at"] for one in told["lost"]}) == len(told["lost"])
