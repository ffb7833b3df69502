//! Which ranks exchange heartbeats.

use super::plan::{Layout, Role};

/// The relation of another rank to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// No rank can continue without it.
    Server,
    /// Leads a group that others can do without.
    Leader,
    /// A rank of the same group, which cannot continue without it.
    Mate,
}

impl Peer {
    /// The ranks of the world with which a rank of this role exchanges heartbeats. Ranks of a group only do so if
    /// others can continue without the group.
    pub fn of_role(layout: Layout, role: Role) -> Vec<(usize, Self)> {
        let servers = || (0..layout.servers).map(|server| (server, Self::Server));
        let leaders = || (0..layout.groups).map(|group| (layout.leader(group), Self::Leader));
        let members = |group: usize| {
            let all = layout.leader(group)..layout.leader(group + 1);
            let wanted = move |_: &usize| layout.groups > 1;
            all.skip(1).filter(wanted).map(|rank| (rank, Self::Mate))
        };
        match role {
            Role::Server(own) => (servers().filter(|(server, _)| *server != own))
                .chain(leaders())
                .collect(),
            Role::Worker { group, rank: 0 } => servers().chain(members(group)).collect(),
            Role::Worker { .. } if layout.groups == 1 => Vec::new(),
            Role::Worker { group, .. } => vec![(layout.leader(group), Self::Mate)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_that_watches_a_peer_gets_its_heartbeats() {
        let layout = Layout::of(8, 2, 2).unwrap();
        for rank in 0..8 {
            for (other, peer) in Peer::of_role(layout, layout.role(rank)) {
                let back = Peer::of_role(layout, layout.role(other));
                let seen = back.iter().find(|(who, _)| *who == rank);
                let seen = seen.unwrap_or_else(|| panic!("{other} does not show itself to {rank}"));
                let expected = match (peer, rank) {
                    (Peer::Mate, _) => Peer::Mate,
                    (_, 0 | 1) => Peer::Server,
                    _ => Peer::Leader,
                };
                assert_eq!(seen.1, expected, "{rank} to {other}");
            }
        }
        let of = |rank| Peer::of_role(layout, layout.role(rank));
        let all = |peers: &[(usize, Peer)]| peers.iter().map(|(rank, _)| *rank).collect::<Vec<_>>();
        assert_eq!(all(&of(1)), [0, 2, 5]);
        assert_eq!(all(&of(5)), [0, 1, 6, 7]);
        assert_eq!(all(&of(7)), [5]);
        let one = Layout::of(4, 1, 1).unwrap();
        let of = |rank| all(&Peer::of_role(one, one.role(rank)));
        assert_eq!([of(0), of(1), of(2)], [vec![1], vec![0], vec![]]);
    }
}
